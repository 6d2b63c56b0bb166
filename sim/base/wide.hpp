// 128-bit integers, for exact products of two times or counts.
#pragma once

namespace rehearsal {

__extension__ using Wide = __int128;

}  // namespace rehearsal
