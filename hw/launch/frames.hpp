// Texts one after another in a single one, each behind its length.
#pragma once
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rehearsal::launch {

inline constexpr std::size_t kFrameHead = sizeof(std::uint64_t);

inline void append_frame(std::string& to, std::string_view text) {
  const std::uint64_t size = text.size();
  to.append(reinterpret_cast<const char*>(&size), kFrameHead).append(text);
}

// What the head of a frame says about the length of its text.
inline std::size_t frame_size(const char* head) {
  std::uint64_t size = 0;
  std::memcpy(&size, head, kFrameHead);
  return size;
}

inline std::string join_frames(std::span<const std::string> texts) {
  std::string all;
  for (const std::string& text : texts) append_frame(all, text);
  return all;
}

inline std::vector<std::string> split_frames(std::string_view all) {
  std::vector<std::string> texts;
  while (all.size() >= kFrameHead) {
    texts.emplace_back(all.substr(kFrameHead, frame_size(all.data())));
    all.remove_prefix(kFrameHead + texts.back().size());
  }
  return texts;
}

}  // namespace rehearsal::launch
