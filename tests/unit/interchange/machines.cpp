// Measured collectives and topologies: nccl-tests, nvidia-smi, NCCL's XML, InfraGraph, Slurm.
#include "interchange/xml.hpp"
#include "machine_files.hpp"

namespace rehearsal::interchange::machines {

TEST_CASE("nccl-tests: the least of both columns and of several runs, and where they were measured") {
  const auto all = imported({sample("nccl-tests/all_reduce_2x8.txt")});
  CHECK(all.part);
  CHECK(value(all, "cluster.use") == "\"b200-sxm\"");
  // 1 MiB is slower than 2 MiB and stays so; of 8 MiB the other column.
  CHECK(value(all, "cluster.collectives.measured.all_reduce.16") ==
        R"([["1KiB","33.4us"],["1MiB","1241.5us"],["2MiB","386.5us"],["8MiB","1388.5us"],["256MiB","10245.5us"],)"
        R"(["8GiB","323250us"]])");
  CHECK(value(all, "cluster.collectives.measured_on.gpus") == "8");
  CHECK(value(all, "cluster.collectives.measured_on.nccl") == "\"2.30\"");
  CHECK(value(all, "cluster.collectives.measured_on.nvlink") == "\"900GB/s\"");

  auto again = scenario::disk().read(sample("nccl-tests/all_reduce_2x8.txt"), 1 << 20);
  again.replace(again.find("35.51"), 5, "31.25");  // a run that was faster at one size
  const auto both = imported({sample("nccl-tests/all_reduce_2x8.txt"), "again.txt"}, "", {}, {{"again.txt", again}});
  CHECK(value(both, "cluster.collectives.measured.all_reduce.16")
            .starts_with(R"([["1KiB","31.25us"],["1MiB","1241.5us"])"));
  const auto chained = imported({"twice.txt"}, "", {}, {{"twice.txt", again + again}});
  CHECK(value(chained, "cluster.collectives.measured.all_reduce.16").starts_with(R"([["1KiB","31.25us"])"));

  // Other GPUs than the first file's.
  CHECK_SAYS(error_of([] {
               imported({sample("nccl-tests/all_reduce_2x8.txt"), sample("nccl-tests/one_node_2.13.txt")});
             }),
             "'cluster.use' is \"dgx-h100\" here, and \"b200-sxm\" by");
}

TEST_CASE("nccl-tests before 2.18: the operation by the command, the bandwidths or the file's name") {
  const auto all = imported({sample("nccl-tests/one_node_2.13.txt")});
  CHECK(value(all, "cluster.use") == "\"dgx-h100\"");
  CHECK(value(all, "cluster.collectives.measured.reduce_scatter.8") ==
        R"([["1MiB","21us"],["8MiB","47us"],["64MiB","221us"]])");
  CHECK(value(all, "cluster.collectives.measured_on.gpus") == "8");

  auto text = scenario::disk().read(sample("nccl-tests/one_node_2.13.txt"), 1 << 20);
  text.erase(0, text.find('\n') + 1);
  const auto read = [&](const std::string& name, const std::string& of) {
    return imported({name}, "", {}, {{name, of}});
  };
  const auto by_rates = read("out.txt", text);  // sums, and 7/8 of the bandwidth on the bus
  CHECK(by_rates.draft.has("cluster.collectives.measured.reduce_scatter.8"));
  auto gathered = text;
  for (auto at = gathered.find("sum "); at != gathered.npos; at = gathered.find("sum "))
    gathered.replace(at, 4, "none");
  CHECK(read("all_gather_perf.txt", gathered).draft.has("cluster.collectives.measured.all_gather.8"));
  CHECK_SAYS(error_of([&] { read("out.txt", gathered); }), "put the name of the program into the file's");
  const auto exchange = error_of([&] { read("alltoall.txt", gathered); });
  CHECK_SAYS(exchange, "no file says which model");  // nothing of the machine is left

  auto wrong = text;
  wrong.replace(wrong.find("42.67      0"), 12, "42.67      7");
  CHECK_SAYS(error_of([&] { read("out.txt", wrong); }), "7 wrong values");
  CHECK_SAYS(error_of([&] {
               read("all_reduce.txt", "#  size  algbw  busbw (us)\n 1024 256 float sum -1 5 1.0 1.0 0 5 1.0 1.0 0\n");
             }),
             "which ranks measured this");
  auto uneven = scenario::disk().read(sample("nccl-tests/all_reduce_2x8.txt"), 1 << 20);
  uneven.replace(uneven.find("node-b"), 6, "node-a");
  CHECK_SAYS(error_of([&] { read("out.txt", uneven); }), "host node-a has 9 of the 16 ranks on 2 hosts");
  auto unknown = text;
  for (auto at = unknown.find("H100"); at != unknown.npos; at = unknown.find("H100")) unknown.replace(at, 4, "Grap");
  CHECK_SAYS(error_of([&] { read("out.txt", unknown); }), "--cluster NAME");
}

TEST_CASE("nvidia-smi topo -m: links by their number, NICs by their distance") {
  const auto h100 = imported({sample("nvidia-smi/h100.txt"), sample("nvidia-smi/h100_list.txt")});
  CHECK(value(h100, "cluster.use") == "\"dgx-h100\"");
  CHECK(value(h100, "cluster.node_topology") == "\"nvswitch\"");
  CHECK(value(h100, "cluster.links.scale_up.bandwidth") == "\"450GB/s\"");  // 18 x 25
  CHECK(value(h100, "cluster.links.scale_out.per_node") == "8");            // of 10: two are for storage
  CHECK(h100.draft.origin("cluster.links.scale_out.bandwidth")->basis == Basis::assumed);
  CHECK(value(imported({sample("nvidia-smi/h100.txt")}, "b200-sxm"), "cluster.links.scale_up.bandwidth") ==
        "\"900GB/s\"");  // 18 x 50: of the fifth generation
  CHECK_SAYS(error_of([] { imported({sample("nvidia-smi/h100.txt")}); }), "nvidia-smi -L");

  const auto v100 = imported({sample("nvidia-smi/v100.txt")}, "dgx-v100-16g");
  CHECK(value(v100, "cluster.node_topology") == "\"hybrid-cube-mesh\"");
  CHECK(value(v100, "cluster.links.scale_up.bandwidth") == "\"150GB/s\"");  // six of 25
  CHECK(value(v100, "cluster.links.scale_out.per_node") == "1");

  const auto pcie = imported({sample("nvidia-smi/pcie.txt")}, "dgx-v100-16g");
  CHECK(value(pcie, "cluster.node_topology.name") == "\"pcie-host\"");
  CHECK(value(pcie, "cluster.node_topology.sockets") == "2");
  CHECK(value(pcie, "cluster.node_topology.switches") == "4");
  CHECK(value(pcie, "cluster.links.scale_up.interconnect.use") == "\"assumed-pcie\"");
  CHECK(value(pcie, "cluster.collectives") == "null");

  // Four GPUs with four links to each other: no switch. Pairs with a bridge: PCIe joins the others.
  const auto read = [](const std::string& text) { return imported({"t.txt"}, "dgx-a100-40g", {}, {{"t.txt", text}}); };
  const auto four = read(
      "\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\nGPU0\tX\tNV4\tNV4\tNV4\t0-7\nGPU1\tNV4\tX\tNV4\tNV4\t0-7\n"
      "GPU2\tNV4\tNV4\tX\tNV4\t0-7\nGPU3\tNV4\tNV4\tNV4\tX\t0-7\n");
  CHECK(value(four, "cluster.node_topology") == "\"full-mesh\"");
  CHECK(value(four, "cluster.links.scale_up.bandwidth") == "\"300GB/s\"");  // 3 x 4 x 25
  const auto bridges = read(
      "\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\nGPU0\tX\tNV12\tSYS\tSYS\t0-7\nGPU1\tNV12\tX\tSYS\tSYS\t0-7\n"
      "GPU2\tSYS\tSYS\tX\tNV12\t0-7\nGPU3\tSYS\tSYS\tNV12\tX\t0-7\n");
  CHECK(value(bridges, "cluster.node_topology.name") == "\"pcie-host\"");
  CHECK(drops(bridges, "NVLinks between some GPUs (NV12)"));
}

TEST_CASE("NCCL's topology in XML: clouds' files and dumps") {
  const auto p4d = imported({sample("nccl-topology/p4d-24xl-topo.xml")});
  CHECK(value(p4d, "cluster.use") == "\"dgx-a100-40g\"");  // device 0x20b0
  CHECK(value(p4d, "cluster.gpus_per_node") == "8");
  CHECK(value(p4d, "cluster.links.scale_out.per_node") == "4");
  CHECK(value(p4d, "cluster.host.pcie.gpus_per_link") == "2");
  CHECK(value(p4d, "cluster.host.pcie.bandwidth") == "\"13.0808GB/s\"");  // .83 of 16 lanes of .985
  const auto ndv4 = imported({sample("nccl-topology/azure_ndv4-topo.xml")}, "dgx-a100-80g");
  CHECK(value(ndv4, "cluster.links.scale_out.per_node") == "8");
  CHECK(value(ndv4, "cluster.host.pcie.gpus_per_link") == "2");
  CHECK_SAYS(error_of([] { imported({sample("nccl-topology/azure_ndv5-topo.xml")}); }), "which GPUs these are");
  CHECK(value(imported({sample("nccl-topology/azure_ndv5-topo.xml")}, "dgx-h100"), "cluster.host.pcie.gpus_per_link") ==
        "1");
  const auto rccl = imported({sample("nccl-topology/rccl_topo_16p1h.xml")}, "mi300x");
  CHECK(value(rccl, "cluster.gpus_per_node") == "16");
  CHECK(value(rccl, "cluster.links.scale_out.bandwidth") == "\"200Gb/s\"");
  CHECK(drops(rccl, "xgmi: 56 links among 16 GPUs"));

  std::string gpus;
  for (const char* bus : {"0000:01:00.0", "0000:02:00.0"})
    gpus += std::string("<pci busid=\"") + bus +
            "\" class=\"0x030200\" device=\"0x2330\" link_speed=\"32.0 GT/s PCIe\" " +
            "link_width=\"16\"><gpu dev=\"0\" sm=\"90\" rank=\"0\" gdr=\"1\"><nvlink target=\"fffffff:ffff:ff\" " +
            "count=\"18\" tclass=\"0x068000\"/></gpu></pci>";
  const auto dump =
      imported({"d.xml"}, "", {}, {{"d.xml", "<system version=\"1\"><cpu numaid=\"0\">" + gpus + "</cpu></system>"}});
  CHECK(value(dump, "cluster.use") == "\"dgx-h100\"");
  CHECK(value(dump, "cluster.node_topology") == "\"nvswitch\"");
  CHECK(value(dump, "cluster.links.scale_up.bandwidth") == "\"450GB/s\"");
}

TEST_CASE("XML: what is wrong is named with its line") {
  const auto of = [](const std::string& text) { return error_of([&] { read_xml(text, "x.xml"); }); };
  const auto tree = read_xml(
      "<?xml version='1.0'?>\n<!-- a > b --><a x=\"1\" y='&lt;&amp;'>\n<b/>\n<!-- c -->\n<b z=\"\"></b></a>\n", "x");
  CHECK(tree.children.size() == 2);
  CHECK(tree.attribute("y") == "<&");
  CHECK(tree.children[1].line == 5);
  CHECK_SAYS(of("<a>\n<b>\n</a>"), "x.xml:3: not valid XML: 'b' of line 2 is closed as 'a'");
  CHECK_SAYS(of("<a x=1/>"), "must be in quotes");
  CHECK_SAYS(of("<a x=\"1\" x=\"2\"/>"), "'x' is there twice");
  CHECK_SAYS(of("<a>"), "'a' is not closed");
  CHECK_SAYS(of("<a>text</a>"), "text between elements");
  CHECK_SAYS(of("<a/><b/>"), "more than one root");
  CHECK_SAYS(of("<a><!-- "), "'-->' is missing");
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += "<a>";
  CHECK_SAYS(of(deep), "nested deeper");
}

TEST_CASE("InfraGraph: servers, NICs and switches") {
  const auto dgx = imported({sample("infragraph/dgxa100.yaml")});
  CHECK(value(dgx, "cluster.use") == "\"dgx-a100-80g\"");
  CHECK(value(dgx, "cluster.node_topology") == "\"nvswitch\"");
  CHECK(value(dgx, "cluster.links.scale_out.per_node") == "8");
  CHECK(value(dgx, "cluster.host.pcie.gpus_per_link") == "2");
  const auto clos = imported({sample("infragraph/two-tier-clos.yaml")}, "dgx-h100");
  CHECK(value(clos, "cluster.nodes") == "4");
  CHECK(value(clos, "cluster.topology.name") == "\"fat-tree\"");
  CHECK(value(clos, "cluster.links.scale_out.bandwidth") == "\"100GB/s\"");
  CHECK(drops(clos, "the description says 100Gbps"));
  const auto flat = imported({sample("infragraph/scaleup-scaleout.yaml")}, "dgx-h100");
  CHECK(value(flat, "cluster.topology") == "\"one-switch\"");
  CHECK(value(flat, "cluster.nodes") == "8");
  CHECK(value(flat, "cluster.links.scale_out.per_node") == "1");
}

TEST_CASE("Slurm: nodes of a leaf switch in three forms, and blocks") {
  for (const auto& [file, nodes] : {std::pair("topology.conf", "8"), std::pair("topology.yaml", "4")}) {
    const auto rails = imported({sample(std::string("slurm/") + file)}, "dgx-h100");
    CHECK(value(rails, "cluster.topology.name") == "\"rail-optimized\"");
    CHECK(value(rails, "cluster.topology.nodes_per_leaf") == nodes);
  }
  const auto conf = imported({sample("slurm/topology.conf")}, "dgx-h100", {"model=llama3-8b"});
  CHECK(value(conf, "cluster.nodes") == "30");
  CHECK(conf.draft[Fact::nodes]->origin.basis == Basis::assumed);
  const auto levels = imported({sample("slurm/scontrol.txt")}, "dgx-h100");
  CHECK(value(levels, "cluster.topology.name") == "\"fat-tree\"");
  CHECK(value(levels, "cluster.topology.levels") == "3");
  CHECK(value(levels, "cluster.topology.radix") == "128");  // 2 x 8 nodes x 8 NICs
  CHECK(drops(imported({sample("slurm/blocks.conf")}, "gb200-nvl72"), "2 blocks, nvl1 of 18 nodes, sizes 18,36"));
  CHECK_SAYS(error_of([] {
               imported({"c.conf"}, "dgx-h100", {}, {{"c.conf", "SwitchName=a Nodes=n[3-1]\n"}});
             }),
             "c.conf:1: no list of names: '3-1'");
}

TEST_CASE("each sample is known as what it is, and as nothing else") {
  const Texts files({});
  Sources sources(files);
  for (const auto& [folder, names] : std::map<std::string, std::vector<std::string>>{
           {"calculon", {"gpt3-175B.json", "3072_t4_p64_d12_mbs4_full.json", "a100_80e.json", "h100_80g_nvl8.json"}},
           {"vtrain", {"config_mtnlg_16_10_105.json", "config_val_single_0818.json"}},
           {"simumax", {"a100_pcie.json", "model_deepseekv3.json", "strategy_ep4_pp2_dp4_selective.json"}},
           {"astra-sim", {"HGX-H100-validated.yml", "HGX-H100-validated_system.json", "ns3_sample_16nodes_2D.json"}},
           {"simai",
            {"aicb_G175B_tp8_pp1.txt", "workload_2_microbatches.txt", "busbw.yaml", "aicb_Workload_spec_v1.1.csv"}},
           {"nccl-tests", {"all_reduce_2x8.txt", "one_node_2.13.txt"}},
           {"nvidia-smi", {"h100.txt", "h100_list.txt", "v100.txt", "pcie.txt"}},
           {"nccl-topology",
            {"p4d-24xl-topo.xml", "azure_ndv4-topo.xml", "azure_ndv5-topo.xml", "rccl_topo_16p1h.xml"}},
           {"infragraph", {"dgxa100.yaml", "scaleup-scaleout.yaml", "two-tier-clos.yaml"}},
           {"slurm", {"topology.conf", "topology.yaml", "scontrol.txt", "blocks.conf"}}})
    for (const auto& name : names) {
      CAPTURE(folder + "/" + name);
      const auto formats = formats_of(sources.read(sample(folder + "/" + name)));
      REQUIRE(formats.size() == 1);
      CHECK(formats[0]->name == folder);
    }
}

}  // namespace rehearsal::interchange::machines
