// Names that others give to models and GPUs, and ours.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "interchange/draft.hpp"
#include "scenario/files.hpp"

namespace rehearsal::interchange {

// The model of models/zoo that somebody means by the name of a repository or a preset: "meta-llama/Llama-3.1-8B" is
// llama3-8b's name there. Nothing if none is meant surely.
std::optional<std::string> model_named(std::string_view name, const scenario::Files& files);

// The cluster of configs/clusters whose GPU has this name in nvidia-smi, traces and logs: "NVIDIA H100 80GB HBM3".
std::optional<std::string> cluster_with(std::string_view gpu, const scenario::Files& files);

// "layers" or "hidden" of the model of a draft: as the draft says, else of the model that it names. Nothing if it has
// none, or one that is not there.
std::optional<std::int64_t> of_model(const ScenarioDraft& draft, std::string_view key, const scenario::Files& files);

// Whether a cluster is the one that stands for its GPU where nothing else is said of the machine.
bool is_usual(std::string_view cluster, const scenario::Files& files);

// The name of a GPU by the identifier of its PCI device, "0x20b0"; empty if it is not known.
std::string gpu_by_device(std::string_view device, const scenario::Files& files);

}  // namespace rehearsal::interchange
