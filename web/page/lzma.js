// Unpacks what `xz --format=lzma` packed: the LZMA SDK's lzma-specification.txt, with the size of the result in the header.
// Browsers unpack gzip by themselves, but the program is a third larger that way, and one file shall stay small.

// Probabilities of a 0 are of 11 bits. They lie in one array: of the kinds of symbols first, then of lengths and
// distances, then of literals.
const kStates = 12, kPlaces = 16;  // a place: the lowest bits of where a symbol stands
const kMatch = 0, kRepeat = kMatch + kStates * kPlaces, kRepeat0 = kRepeat + kStates, kRepeat1 = kRepeat0 + kStates,
      kRepeat2 = kRepeat1 + kStates, kLongRepeat0 = kRepeat2 + kStates, kSlot = kLongRepeat0 + kStates * kPlaces,
      kSpecial = kSlot + 4 * 64, kAlign = kSpecial + 128, kLength = kAlign + 16, kLengths = 2 + 2 * kPlaces * 8 + 256,
      kLiteral = kLength + 2 * kLengths;

export function unlzma(packed) {
  const header = new DataView(packed.buffer, packed.byteOffset, 13);
  const settings = header.getUint8(0);
  const lc = settings % 9, lp = Math.floor(settings / 9) % 5, pb = Math.floor(settings / 45);
  const out = new Uint8Array(Number(header.getBigUint64(5, true)));
  const odds = new Uint16Array(kLiteral + (0x300 << (lc + lp))).fill(1024);
  const placeMask = (1 << pb) - 1, literalMask = (1 << lp) - 1;

  let next = 18, range = 0xffffffff, code = 0;
  for (let i = 14; i < 18; i++) code = (code << 8 | packed[i]) >>> 0;

  function bit(at) {
    const odd = odds[at], bound = Math.imul(range >>> 11, odd) >>> 0;
    let one;
    if (code < bound) {
      range = bound, odds[at] = odd + (2048 - odd >> 5), one = 0;
    } else {
      range -= bound, code -= bound, odds[at] = odd - (odd >> 5), one = 1;
    }
    if (range < 0x1000000) range = range << 8 >>> 0, code = (code << 8 | packed[next++]) >>> 0;
    return one;
  }
  // A number of so many bits, highest first; or lowest first.
  function number(at, bits) {
    let sum = 1;
    for (let i = 0; i < bits; i++) sum = sum << 1 | bit(at + sum);
    return sum - (1 << bits);
  }
  function backwards(at, bits) {
    let sum = 0;
    for (let i = 0, node = 1; i < bits; i++) {
      const one = bit(at + node);
      node = node << 1 | one, sum |= one << i;
    }
    return sum;
  }
  function evenly(bits) {
    let sum = 0;
    for (; bits > 0; bits--) {
      range >>>= 1;
      const one = code >= range ? 1 : 0;
      if (one) code -= range;
      sum = sum << 1 | one;
      if (range < 0x1000000) range = range << 8 >>> 0, code = (code << 8 | packed[next++]) >>> 0;
    }
    return sum;
  }
  function length(at, place) {
    if (!bit(at)) return 2 + number(at + 2 + place * 8, 3);
    if (!bit(at + 1)) return 10 + number(at + 2 + (kPlaces + place) * 8, 3);
    return 18 + number(at + 2 + 2 * kPlaces * 8, 8);
  }
  function distance(size) {
    const slot = number(kSlot + Math.min(size - 2, 3) * 64, 6);
    if (slot < 4) return slot;
    const bits = (slot >> 1) - 1, base = (2 | slot & 1) << bits;
    if (slot < 14) return base + backwards(kSpecial + base - slot, bits);
    return base + (evenly(bits - 4) << 4) + backwards(kAlign, 4);
  }

  let at = 0, state = 0, back0 = 0, back1 = 0, back2 = 0, back3 = 0;  // distances, less one
  while (at < out.length) {
    const place = at & placeMask;
    if (!bit(kMatch + state * kPlaces + place)) {
      const before = at > 0 ? out[at - 1] : 0;
      const tree = kLiteral + 0x300 * (((at & literalMask) << lc) + (before >> 8 - lc));
      let symbol = 1;
      if (state >= 7) {  // behind a copy: unlike the byte that would have followed
        let unlike = out[at - back0 - 1];
        while (symbol < 0x100) {
          const expected = unlike >> 7 & 1, one = bit(tree + (1 + expected << 8) + symbol);
          unlike <<= 1, symbol = symbol << 1 | one;
          if (expected !== one) break;
        }
      }
      while (symbol < 0x100) symbol = symbol << 1 | bit(tree + symbol);
      out[at++] = symbol;
      state = state < 4 ? 0 : state < 10 ? state - 3 : state - 6;
      continue;
    }
    let size;
    if (!bit(kRepeat + state)) {
      back3 = back2, back2 = back1, back1 = back0;
      size = length(kLength, place), back0 = distance(size);
      state = state < 7 ? 7 : 10;
    } else {
      if (!bit(kRepeat0 + state)) {
        if (!bit(kLongRepeat0 + state * kPlaces + place)) {
          out[at] = out[at - back0 - 1], at++;
          state = state < 7 ? 9 : 11;
          continue;
        }
      } else {
        let chosen;
        if (!bit(kRepeat1 + state)) {
          chosen = back1;
        } else {
          if (!bit(kRepeat2 + state)) chosen = back2;
          else chosen = back3, back3 = back2;
          back2 = back1;
        }
        back1 = back0, back0 = chosen;
      }
      size = length(kLength + kLengths, place);
      state = state < 7 ? 8 : 11;
    }
    if (back0 >= at) throw new Error("the packed program is damaged");
    for (const end = at + size; at < end; at++) out[at] = out[at - back0 - 1];
  }
  return out;
}
