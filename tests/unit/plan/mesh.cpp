// Ranks on a mesh: groups counted by hand, and properties of every order.
#include "plan/mesh.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "base/error.hpp"

using namespace rehearsal;
using plan::AxisOrder, plan::Mesh;

namespace {

using Groups = std::vector<std::vector<std::uint32_t>>;

// Tensor 2, data 2, pipeline 2.
Mesh cube(const AxisOrder& order = plan::kUsualOrder) { return Mesh({2, 1, 2, 2}, order); }
constexpr AxisOrder kPipelineFirst{Axis::pipeline, Axis::tensor, Axis::context, Axis::expert, Axis::data};
constexpr AxisOrder kDataFirst{Axis::data, Axis::tensor, Axis::context, Axis::expert, Axis::pipeline};

}  // namespace

TEST_CASE("eight ranks in the usual order: tensor side by side, then data, then pipeline") {
  const Mesh mesh = cube();
  CHECK(mesh.groups(Axis::tensor) == Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}});
  CHECK(mesh.groups(Axis::data) == Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}});
  CHECK(mesh.groups(Axis::pipeline) == Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}});
  CHECK(mesh.groups(Axis::context) == Groups{{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}});
  CHECK(mesh.groups(Axis::tensor | Axis::data) == Groups{{0, 1, 2, 3}, {4, 5, 6, 7}});
  CHECK(mesh.group(Axis::data, 7) == std::vector<std::uint32_t>{5, 7});
  CHECK(mesh.shape(Axis::tensor) == GroupShape{2, 1});
  CHECK(mesh.shape(Axis::data) == GroupShape{2, 2});
  CHECK(mesh.shape(Axis::tensor | Axis::data) == GroupShape{4, 1});
  CHECK(mesh.ends(Axis::pipeline) == GroupShape{2, 4});
}

TEST_CASE("the order decides who is whose neighbour") {
  const Mesh data = cube(kDataFirst);
  CHECK(data.groups(Axis::data) == Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}});
  CHECK(data.groups(Axis::tensor) == Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}});
  CHECK(data.shape(Axis::tensor) == GroupShape{2, 2});
  const Mesh pipeline = cube(kPipelineFirst);
  CHECK(pipeline.groups(Axis::pipeline) == Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}});
  CHECK(pipeline.groups(Axis::tensor) == Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}});
  CHECK(pipeline.groups(Axis::data) == Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}});
  // Pipeline between tensor and data: together they leave gaps.
  const Mesh between = cube({Axis::tensor, Axis::pipeline, Axis::context, Axis::expert, Axis::data});
  CHECK(between.groups(Axis::tensor | Axis::data) == Groups{{0, 1, 4, 5}, {2, 3, 6, 7}});
  CHECK_THROWS_AS(between.shape(Axis::tensor | Axis::data), UserError);
}

TEST_CASE("experts fold the ranks of one pipeline rank again") {
  // Tensor 2 x data 4, twice: experts 4 in each pipeline rank, so their gradients are added over 2.
  const AxisOrder far{Axis::tensor, Axis::context, Axis::data, Axis::expert, Axis::pipeline};
  const Mesh near({2, 1, 4, 2}, plan::kUsualOrder, {4, 1}), apart({2, 1, 4, 2}, far, {4, 1});
  CHECK(near.size(Axis::expert_data) == 2);
  CHECK(near.groups(Axis::expert) == Groups{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}, {12, 13, 14, 15}});
  CHECK(near.groups(Axis::expert_data)[1] == std::vector<std::uint32_t>{1, 5});
  CHECK(near.shape(Axis::expert) == GroupShape{4, 1});
  CHECK(apart.groups(Axis::expert) == Groups{{0, 2, 4, 6}, {1, 3, 5, 7}, {8, 10, 12, 14}, {9, 11, 13, 15}});
  CHECK(apart.groups(Axis::expert_data)[0] == std::vector<std::uint32_t>{0, 1});
  CHECK(apart.shape(Axis::expert) == GroupShape{4, 2});
  // Each expert cut over 2 GPUs as well: expert-tensor innermost.
  const Mesh cut({2, 1, 4, 2}, plan::kUsualOrder, {4, 2});
  CHECK(cut.groups(Axis::expert_tensor)[0] == std::vector<std::uint32_t>{0, 1});
  CHECK(cut.groups(Axis::expert) == Groups{{0, 2, 4, 6}, {1, 3, 5, 7}, {8, 10, 12, 14}, {9, 11, 13, 15}});
  CHECK(cut.size(Axis::expert_data) == 1);
  CHECK_THROWS_AS(Mesh({2, 1, 4, 2}, plan::kUsualOrder, {3, 1}), UserError);
}

TEST_CASE("parts of the data axis: shards and copies, GPUs that gather again, two hops") {
  // Tensor 2, data 8: shards of 4 replicas, of which 2 gather again, or are on one node.
  const Mesh mesh({2, 1, 8, 1}, plan::kUsualOrder, {1, 1}, 4, 2, 2);
  CHECK(mesh.groups(Axis::shard)[0] == std::vector<std::uint32_t>{0, 2, 4, 6});
  CHECK(mesh.groups(Axis::copy)[0] == std::vector<std::uint32_t>{0, 8});
  CHECK(mesh.groups(Axis::secondary)[2] == std::vector<std::uint32_t>{4, 6});
  CHECK(mesh.groups(Axis::near) == mesh.groups(Axis::secondary));
  CHECK(mesh.groups(Axis::across)[0] == std::vector<std::uint32_t>{0, 4});
  CHECK(mesh.shape(Axis::near) == GroupShape{2, 2});
  CHECK(mesh.shape(Axis::across) == GroupShape{2, 4});
  CHECK(Mesh({2, 1, 8, 1}).size(Axis::across) == 1);
}

TEST_CASE("a rank's place has its coordinates of both foldings") {
  const Mesh mesh({2, 3, 2, 2}, rehearsal::plan::kUsualOrder, {3, 2});
  for (std::uint32_t rank = 0; rank < mesh.ranks(); ++rank)
    for (std::size_t a = 0; a < kAxes; ++a)
      CHECK(mesh.at(rank)[static_cast<Axis>(a)] == mesh.along(static_cast<Axis>(a), rank));
}

TEST_CASE("a pipeline further inside spreads the experts of a pipeline rank") {
  // Pipeline rank 0 is 0 2 4 6: experts 0 2 and 4 6.
  const Mesh inside({2, 1, 2, 2}, kPipelineFirst, {2, 1});
  CHECK(inside.groups(Axis::expert) == Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}});
  CHECK(inside.shape(Axis::expert) == GroupShape{2, 2});
  // Tensor 3, pipeline 2, data 2: pipeline rank 0 is 0 1 2 6 7 8, whose pairs are not alike.
  const Mesh middle({3, 1, 2, 2}, {Axis::tensor, Axis::pipeline, Axis::context, Axis::expert, Axis::data}, {2, 1});
  CHECK(middle.groups(Axis::expert) == Groups{{0, 1}, {2, 6}, {3, 4}, {5, 9}, {7, 8}, {10, 11}});
  CHECK_THROWS_AS(middle.shape(Axis::expert), UserError);
}

TEST_CASE("sizes and orders at random: places and ranks are one to one, groups partition the ranks") {
  std::mt19937 dice(7);
  const auto below = [&](std::uint32_t n) { return std::uint32_t(dice() % n); };
  for (int i = 0; i < 300; i++) {
    auto order = plan::kUsualOrder;
    std::shuffle(order.begin(), order.end(), dice);
    Mesh::Sizes sizes;
    for (auto& size : sizes) size = 1 + below(4);
    const auto stage = sizes[0] * sizes[1] * sizes[2];
    Mesh::Experts experts{1 + below(stage), 1};
    while (stage % experts.expert != 0) experts.expert--;
    experts.tensor = 1 + below(stage / experts.expert);
    while (stage / experts.expert % experts.tensor != 0) experts.tensor--;
    const Mesh mesh(sizes, order, experts);
    REQUIRE(mesh.ranks() == stage * sizes[3]);
    for (std::uint32_t r = 0; r < mesh.ranks(); r++) {
      REQUIRE(mesh.rank(mesh.at(r)) == r);
      for (std::size_t f = 0; f < kFactors; f++) CHECK(mesh.at(r).along[f] == mesh.along(static_cast<Axis>(f), r));
      CHECK(mesh.group(mesh.replicas(), r)[mesh.at(r).replica] == r);
    }
    for (const Axes axes : {Axes(Axis::tensor), Axes(Axis::context), Axes(Axis::data), Axes(Axis::pipeline),
                            Axes(Axis::expert), Axes(Axis::expert_tensor), Axes(Axis::expert_data),
                            Axis::tensor | Axis::data, Axis::expert | Axis::expert_tensor}) {
      std::vector<std::uint32_t> seen;
      std::size_t members = 1;
      for (std::size_t a = 0; a < kAxes; a++)
        if (const auto axis = static_cast<Axis>(a); axes.holds(axis)) members *= mesh.size(axis);
      for (const auto& group : mesh.groups(axes)) {
        REQUIRE(group.size() == members);
        CHECK(std::is_sorted(group.begin(), group.end()));
        for (std::size_t k = 0; k < group.size(); k++) {
          CHECK(mesh.group(axes, group[k]) == group);
          // Members differ only in the group's axes.
          for (const Axis same : {Axis::tensor, Axis::context, Axis::data, Axis::pipeline})
            if (!axes.holds(same) && !axes.holds(Axis::expert) && !axes.holds(Axis::expert_tensor) &&
                !axes.holds(Axis::expert_data))
              CHECK(mesh.along(same, group[k]) == mesh.along(same, group[0]));
          CHECK((axes.holds(Axis::pipeline) ||
                 mesh.along(Axis::pipeline, group[k]) == mesh.along(Axis::pipeline, group[0])));
        }
        seen.insert(seen.end(), group.begin(), group.end());
      }
      std::sort(seen.begin(), seen.end());
      REQUIRE(seen.size() == mesh.ranks());
      for (std::uint32_t r = 0; r < mesh.ranks(); r++) REQUIRE(seen[r] == r);
      // The group shapes that prices get match the groups.
      try {
        const auto shape = mesh.shape(axes);
        CHECK(shape.ranks == members);
        for (const auto& group : mesh.groups(axes))
          for (std::size_t k = 1; k < group.size(); k++) CHECK(group[k] - group[k - 1] == shape.stride);
      } catch (const UserError&) {
        const auto groups = mesh.groups(axes);
        const auto stride = groups[0][1] - groups[0][0];
        CHECK(std::any_of(groups.begin(), groups.end(), [&](const auto& group) {
          for (std::size_t k = 1; k < group.size(); k++)
            if (group[k] - group[k - 1] != stride) return true;
          return false;
        }));
      }
    }
    const auto i_th = mesh.groups(Axis::data);
    for (std::uint32_t g = 0; g < i_th.size(); g++) CHECK(mesh.lowest(Axis::data, g) == i_th[g].front());
  }
}
