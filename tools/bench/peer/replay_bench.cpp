// Benchmark peer, kept as it is: not part of the product, and no code of it is. It replays the same 1F1B grid over flat
// arrays of two predecessors per task, with several queues; engine_bench runs it in the same session to compare rates.
// Micro-benchmark: how fast can a pipeline task graph (1F1B grid, p stages x m micro-batches,
// 2*p*m tasks, ~2 deps each) be replayed on one core?   g++ -O3 -march=native -std=c++20 replay_bench.cpp -pthread
// Single-thread rows report thread CPU time (min of R runs); two-thread rows report wall time.
// All variants must give the same makespan (checked).  Time unit: int64 picoseconds.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <memory>
#include <queue>
#include <thread>
#include <vector>
using u32 = uint32_t; using u64 = uint64_t; using i64 = int64_t;
static double cpu() { timespec t; clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); return t.tv_sec + 1e-9 * t.tv_nsec; } // own CPU time: robust on a shared machine
static double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
static constexpr u32 NONE = ~0u;

struct Grid {                       // explicit graph, ids in slot (wavefront = topological) order
  u32 p, m, n;
  std::vector<u32> dur;             // ns-scale durations stored as u32 in units of 1 ns -> *1000 ps
  std::vector<u32> p0, p1;          // same-stage predecessor, cross-stage predecessor (NONE = absent)
  std::vector<u32> soff, succ;      // CSR successors
  static constexpr i64 LINK = 5'000'000; // 5 us hop, in ps
};
static u32 hash32(u64 x) { x ^= x >> 33; x *= 0xff51afd7ed558ccdULL; x ^= x >> 33; x *= 0xc4ceb9fe1a85ec53ULL; x ^= x >> 33; return u32(x); }
static u32 durF(u32 s, u32 i) { return 1'000'000 + hash32(u64(s) << 32 | i) % 20000; }
static u32 durB(u32 s, u32 i) { return 2'000'000 + hash32((u64(s) << 32 | i) ^ 0x9e3779b97f4a7c15ULL) % 40000; }

// slot of each task in the unit-time 1F1B schedule: a valid topological order for any durations
static inline u32 slotF(u32 p, u32 s, u32 i) { return i < p - s ? s + i : s + 2 * i; }
static inline u32 slotB(u32 p, u32 s, u32 i) { return 2 * p - 1 - s + 2 * i; }

static void build(Grid& g, u32 p, u32 m, bool csr, bool stage_major) {
  g.p = p; g.m = m; g.n = 2 * p * m;
  u32 T = 2 * p + 2 * m;
  std::vector<u32> idF(size_t(p) * m), idB(size_t(p) * m);
  if (stage_major) { // ids: all tasks of a stage in program order
    for (u32 s = 0; s < p; s++) {
      std::vector<std::pair<u32, u32>> o; o.reserve(2 * m);
      for (u32 i = 0; i < m; i++) { o.push_back({slotF(p, s, i), i << 1}); o.push_back({slotB(p, s, i), i << 1 | 1}); }
      std::sort(o.begin(), o.end());
      for (u32 k = 0; k < 2 * m; k++) { u32 i = o[k].second >> 1; (o[k].second & 1 ? idB : idF)[size_t(s) * m + i] = s * 2 * m + k; }
    }
  } else { // counting sort by slot
    std::vector<u32> cnt(T + 1, 0);
    for (u32 s = 0; s < p; s++) for (u32 i = 0; i < m; i++) { cnt[slotF(p, s, i) + 1]++; cnt[slotB(p, s, i) + 1]++; }
    for (u32 t = 0; t < T; t++) cnt[t + 1] += cnt[t];
    for (u32 s = 0; s < p; s++) for (u32 i = 0; i < m; i++) { idF[size_t(s) * m + i] = cnt[slotF(p, s, i)]++; idB[size_t(s) * m + i] = cnt[slotB(p, s, i)]++; }
  }
  g.dur.assign(g.n, 0); g.p0.assign(g.n, NONE); g.p1.assign(g.n, NONE);
  for (u32 s = 0; s < p; s++) {
    std::vector<std::pair<u32, u32>> o; o.reserve(2 * m);
    for (u32 i = 0; i < m; i++) {
      u32 f = idF[size_t(s) * m + i], b = idB[size_t(s) * m + i];
      g.dur[f] = durF(s, i); g.dur[b] = durB(s, i);
      if (s > 0) g.p1[f] = idF[size_t(s - 1) * m + i];
      if (s + 1 < p) g.p1[b] = idB[size_t(s + 1) * m + i];
      o.push_back({slotF(p, s, i), f}); o.push_back({slotB(p, s, i), b});
    }
    std::sort(o.begin(), o.end());
    for (u32 k = 1; k < 2 * m; k++) g.p0[o[k].second] = o[k - 1].second;
  }
  if (csr) {
    g.soff.assign(size_t(g.n) + 1, 0);
    for (u32 i = 0; i < g.n; i++) { if (g.p0[i] != NONE) g.soff[g.p0[i] + 1]++; if (g.p1[i] != NONE) g.soff[g.p1[i] + 1]++; }
    for (u32 i = 0; i < g.n; i++) g.soff[i + 1] += g.soff[i];
    g.succ.resize(g.soff[g.n]); std::vector<u32> c(g.soff.begin(), g.soff.end() - 1);
    for (u32 i = 0; i < g.n; i++) { if (g.p0[i] != NONE) g.succ[c[g.p0[i]]++] = i << 1; if (g.p1[i] != NONE) g.succ[c[g.p1[i]]++] = i << 1 | 1; } // low bit: link hop
  }
}

// --- A: structured recurrence, no graph in memory, O(p) state -------------------------------
static i64 structured(u32 p, u32 m) {
  std::vector<i64> ready(p, 0), lastF(p, 0), lastB(p, 0), nF(p), nB(p); i64 mk = 0;
  u32 T = 2 * p + 2 * m;
  for (u32 t = 0; t < T; t++) {                       // stages in one slot are independent
    for (u32 s = 0; s < p; s++) {                     // neighbours' previous-slot values
      nF[s] = s ? lastF[s - 1] + Grid::LINK : 0; nB[s] = s + 1 < p ? lastB[s + 1] + Grid::LINK : 0;
    }
    for (u32 s = 0; s < p; s++) {
      // forward?
      bool f = false; u32 i = 0;
      if (t >= s && t - s < p - s && t - s < m) { f = true; i = t - s; }
      else if (t >= s && ((t - s) & 1) == 0 && (t - s) / 2 >= p - s && (t - s) / 2 < m) { f = true; i = (t - s) / 2; }
      if (f) { i64 e = std::max(ready[s], nF[s]) + i64(durF(s, i)) * 1000; lastF[s] = e; ready[s] = e; mk = std::max(mk, e); continue; }
      u32 b0 = 2 * p - 1 - s;
      if (t >= b0 && ((t - b0) & 1) == 0 && (t - b0) / 2 < m) {
        i = (t - b0) / 2; i64 e = std::max(ready[s], nB[s]) + i64(durB(s, i)) * 1000; lastB[s] = e; ready[s] = e; mk = std::max(mk, e);
      }
    }
  }
  return mk;
}
// --- A2: the same but constant duration per stage (usual case) -> branch-light
static i64 structured_const(u32 p, u32 m) {
  // micro-batch i of warm-up depends on lastF of slot t-1 only when the neighbour ran then; steady: both alternate
  std::vector<i64> ready(p, 0); std::vector<i64> F(p, 0), B(p, 0); i64 mk = 0;
  std::vector<i64> df(p), db(p); for (u32 s = 0; s < p; s++) { df[s] = i64(durF(s, 0)) * 1000; db[s] = i64(durB(s, 0)) * 1000; }
  u32 T = 2 * p + 2 * m;
  for (u32 t = 0; t < T; t++) {
    // at slot t: stages with (t-s) even may run F (or warm-up any parity), with (t-2p+1+s) even may run B
    // descending for F reads s-1 (old value), ascending for B reads s+1 (old value)
    u32 hi = std::min(p, t + 1);
    for (u32 s = hi; s-- > 0;) {
      u32 d = t - s; bool warm = d < p - s; u32 i = warm ? d : d >> 1;
      bool run = i < m && (warm || ((d & 1) == 0 && i >= p - s));
      if (!run) continue;
      i64 e = std::max(ready[s], s ? F[s - 1] + Grid::LINK : 0) + df[s]; F[s] = e; ready[s] = e; 
    }
    if (t + 1 > p) {
      u32 lo = t + 1 >= 2 * p ? 0 : 2 * p - 1 - t;
      for (u32 s = lo; s < p; s++) {
        u32 d = t - (2 * p - 1 - s); if ((d & 1) || (d >> 1) >= m) continue;
        i64 e = std::max(ready[s], s + 1 < p ? B[s + 1] + Grid::LINK : 0) + db[s]; B[s] = e; ready[s] = e;
      }
    }
  }
  for (u32 s = 0; s < p; s++) mk = std::max(mk, ready[s]);
  return mk;
}
// --- B: explicit predecessors, given topological order ---------------------------------------
static i64 topo_pred(const Grid& g, std::vector<i64>& end, const u32* order) {
  i64 mk = 0;
  for (u32 k = 0; k < g.n; k++) {
    u32 i = order ? order[k] : k;
    i64 a = g.p0[i] == NONE ? 0 : end[g.p0[i]], b = g.p1[i] == NONE ? 0 : end[g.p1[i]] + Grid::LINK;
    i64 e = std::max(a, b) + i64(g.dur[i]) * 1000; end[i] = e; mk = std::max(mk, e);
  }
  return mk;
}
// --- C: Kahn FIFO (no time order) --------------------------------------------------------------
static i64 kahn(const Grid& g, std::vector<i64>& rdy, std::vector<uint8_t>& deg, std::vector<u32>& q, bool dfs) {
  std::fill(rdy.begin(), rdy.end(), 0);
  u32 h = 0, t = 0; i64 mk = 0;
  for (u32 i = 0; i < g.n; i++) { deg[i] = (g.p0[i] != NONE) + (g.p1[i] != NONE); if (!deg[i]) q[t++] = i; }
  auto fin = [&](u32 i) {
    i64 e = rdy[i] + i64(g.dur[i]) * 1000; mk = std::max(mk, e);
    for (u32 k = g.soff[i]; k < g.soff[i + 1]; k++) {
      u32 s = g.succ[k] >> 1; i64 a = e + (g.succ[k] & 1 ? Grid::LINK : 0);
      if (a > rdy[s]) rdy[s] = a;
      if (--deg[s] == 0) q[t++] = s;
    }
  };
  if (!dfs) while (h < t) fin(q[h++]);
  else while (t) fin(q[--t]);
  return mk;
}
// --- D: event driven -----------------------------------------------------------------------------
struct Ev { i64 t; u32 id; u32 pad; };
struct EvGt { bool operator()(const Ev& a, const Ev& b) const { return a.t != b.t ? a.t > b.t : a.id > b.id; } };
struct StdPQ { std::priority_queue<Ev, std::vector<Ev>, EvGt> q; void push(i64 t, u32 id) { q.push({t, id, 0}); } bool empty() { return q.empty(); } Ev pop() { Ev e = q.top(); q.pop(); return e; } };
template <int D> struct DHeap { // implicit d-ary heap, hole method, 16-byte entries compared as one 128-bit key
  using K = unsigned __int128; std::vector<K> a;
  static K key(i64 t, u32 id) { return K(u64(t)) << 64 | id; }
  bool empty() { return a.empty(); }
  void push(i64 t, u32 id) {
    K k = key(t, id); size_t i = a.size(); a.push_back(k);
    while (i) { size_t p = (i - 1) / D; if (a[p] <= k) break; a[i] = a[p]; i = p; }
    a[i] = k;
  }
  Ev pop() {
    K r = a[0], k = a.back(); a.pop_back(); size_t n = a.size(), i = 0;
    if (n) {
      for (;;) {
        size_t c = i * D + 1; if (c >= n) break; size_t e = std::min(c + D, n), b = c;
        for (size_t j = c + 1; j < e; j++) b = a[j] < a[b] ? j : b;
        if (a[b] >= k) break; a[i] = a[b]; i = b;
      }
      a[i] = k;
    }
    return {i64(r >> 64), u32(r), 0};
  }
};
struct Radix { // monotone radix heap on u64 time; ties inside bucket 0 sorted by id when drained
  std::vector<Ev> b[65]; std::vector<Ev> cur; size_t ci = 0; u64 last = 0; size_t n = 0;
  bool empty() { return n == 0; }
  void push(i64 t, u32 id) { n++; u64 x = u64(t) ^ last; int k = x ? 64 - __builtin_clzll(x) : 0; b[k].push_back({t, id, 0}); }
  Ev pop() {
    if (b[0].empty()) {
      int k = 1; while (b[k].empty()) k++;
      u64 mn = ~0ull; for (auto& e : b[k]) mn = std::min(mn, u64(e.t)); last = mn;
      for (auto& e : b[k]) { u64 x = u64(e.t) ^ last; b[x ? 64 - __builtin_clzll(x) : 0].push_back(e); } b[k].clear();
      std::sort(b[0].begin(), b[0].end(), [](const Ev& x, const Ev& y) { return x.id > y.id; });
    }
    Ev e = b[0].back(); b[0].pop_back(); n--; return e;
  }
};
struct Wheel { // calendar queue: fixed power-of-two bucket width/number, sorted on drain of one bucket-day
  int sh; u32 nb; std::vector<std::vector<Ev>> b; u64 day = 0; size_t n = 0; std::vector<Ev> cur;
  Wheel(int s, u32 k) : sh(s), nb(k), b(k) {}
  bool empty() { return n == 0; }
  void push(i64 t, u32 id) {
    n++; u64 d = u64(t) >> sh;
    if (d == day) { cur.insert(std::upper_bound(cur.begin(), cur.end(), Ev{t, id, 0}, EvGt()), Ev{t, id, 0}); return; }
    b[d & (nb - 1)].push_back({t, id, 0});
  }
  Ev pop() {
    while (cur.empty()) {
      day++; auto& v = b[day & (nb - 1)];
      for (size_t i = 0; i < v.size();) if ((u64(v[i].t) >> sh) == day) { cur.push_back(v[i]); v[i] = v.back(); v.pop_back(); } else i++;
      std::sort(cur.begin(), cur.end(), EvGt());
    }
    Ev e = cur.back(); cur.pop_back(); n--; return e;
  }
};
template <class Q> static i64 event_sim(const Grid& g, Q& q, std::vector<i64>& rdy, std::vector<uint8_t>& deg, size_t* maxq = nullptr) {
  std::fill(rdy.begin(), rdy.end(), 0); size_t live = 0, mx = 0; i64 mk = 0;
  for (u32 i = 0; i < g.n; i++) { deg[i] = (g.p0[i] != NONE) + (g.p1[i] != NONE); if (!deg[i]) { q.push(i64(g.dur[i]) * 1000, i); live++; } }
  while (!q.empty()) {
    Ev e = q.pop(); live--; mk = e.t;
    for (u32 k = g.soff[e.id]; k < g.soff[e.id + 1]; k++) {
      u32 s = g.succ[k] >> 1; i64 a = e.t + (g.succ[k] & 1 ? Grid::LINK : 0);
      if (a > rdy[s]) rdy[s] = a;
      if (--deg[s] == 0) { q.push(rdy[s] + i64(g.dur[s]) * 1000, s); live++; }
    }
    mx = std::max(mx, live);
  }
  if (maxq) *maxq = mx; return mk;
}
template <class Q> static double hold(Q& q, size_t N, size_t ops) { // classic hold model
  u64 r = 88172645463325252ULL; auto rnd = [&] { r ^= r << 13; r ^= r >> 7; r ^= r << 17; return r; };
  for (size_t i = 0; i < N; i++) q.push(i64(rnd() % 2'000'000'000), u32(i));
  for (size_t i = 0; i < ops / 4; i++) { Ev e = q.pop(); q.push(e.t + i64(rnd() % 2'000'000'000), e.id); }
  double t0 = cpu(); for (size_t i = 0; i < ops; i++) { Ev e = q.pop(); q.push(e.t + i64(rnd() % 2'000'000'000), e.id); } return (cpu() - t0) / ops * 1e9;
}
static void rep(const char* name, double dt, size_t n, i64 mk) { printf("%-52s %8.3f s  %7.2f ns/task  %7.1f M/s  makespan_ps=%lld\n", name, dt, dt / n * 1e9, n / dt / 1e6, (long long)mk); fflush(stdout); }
template <class F> static double best(int k, F f) { double b = 1e9; for (int i = 0; i < k; i++) { double t = cpu(); f(); b = std::min(b, cpu() - t); } return b; }
template <class F> static double wbest(int k, F f) { double b = 1e9; for (int i = 0; i < k; i++) { double t = now(); f(); b = std::min(b, now() - t); } return b; }

int main(int c, char** v) {
  u32 p = c > 1 ? atoi(v[1]) : 1024, m = c > 2 ? atoi(v[2]) : 8192; int R = c > 3 ? atoi(v[3]) : 3;
  { // memory bandwidth of one core, then two
    size_t N = 1 << 26; std::unique_ptr<double[]> a(new double[N]), b(new double[N]), d(new double[N]);
    for (size_t i = 0; i < N; i++) a[i] = b[i] = d[i] = 1;
    auto tri = [&](size_t lo, size_t hi) { for (size_t i = lo; i < hi; i++) a[i] = b[i] + 3.0 * d[i]; };
    double t1 = best(5, [&] { tri(0, N); }), t2 = wbest(5, [&] { std::thread x(tri, 0, N / 2), y(tri, N / 2, N); x.join(); y.join(); });
    printf("stream triad: 1 core %.1f GB/s, 2 cores %.1f GB/s (24 B/elem counted)\n", 24.0 * N / t1 / 1e9, 24.0 * N / t2 / 1e9);
  }
  size_t n = size_t(2) * p * m; printf("1F1B grid p=%u m=%u tasks=%zu\n", p, m, n); i64 mk = 0;
  { double t = best(R, [&] { mk = structured(p, m); }); rep("A  structured recurrence, O(p) state, hashed durations", t, n, mk); }
  { i64 k2 = 0; double t = best(R, [&] { k2 = structured_const(p, m); }); rep("A2 structured recurrence, per-stage constant durations", t, n, k2); }
  auto sims = [&](Grid& g, const char* lab) {
    std::vector<i64> rdy(g.n); std::vector<uint8_t> deg(g.n); std::vector<u32> q(g.n); char nm[96]; double t;
    snprintf(nm, 96, "C  Kahn FIFO, CSR succ (%s)", lab); t = best(R, [&] { mk = kahn(g, rdy, deg, q, false); }); rep(nm, t, g.n, mk);
    snprintf(nm, 96, "C2 Kahn LIFO stack, CSR succ (%s)", lab); t = best(R, [&] { mk = kahn(g, rdy, deg, q, true); }); rep(nm, t, g.n, mk);
    size_t mx = 0;
    snprintf(nm, 96, "D1 events std::priority_queue (%s)", lab); t = best(R, [&] { StdPQ h; mk = event_sim(g, h, rdy, deg, &mx); }); rep(nm, t, g.n, mk);
    printf("   (max events in queue: %zu)\n", mx);
    snprintf(nm, 96, "D2 events 4-ary heap 128-bit key (%s)", lab); t = best(R, [&] { DHeap<4> h; mk = event_sim(g, h, rdy, deg); }); rep(nm, t, g.n, mk);
    snprintf(nm, 96, "D2b events 2-ary heap 128-bit key (%s)", lab); t = best(R, [&] { DHeap<2> h; mk = event_sim(g, h, rdy, deg); }); rep(nm, t, g.n, mk);
    snprintf(nm, 96, "D3 events radix heap (%s)", lab); t = best(R, [&] { Radix h; mk = event_sim(g, h, rdy, deg); }); rep(nm, t, g.n, mk);
    snprintf(nm, 96, "D4 events calendar/wheel 4096x1.07ms/512 (%s)", lab); t = best(R, [&] { Wheel h(21, 4096); mk = event_sim(g, h, rdy, deg); }); rep(nm, t, g.n, mk);
  };
  {
    Grid g; double t0 = now(); build(g, p, m, true, false); printf("build (slot order): %.2f s\n", now() - t0);
    std::vector<i64> end(g.n);
    double t = best(R, [&] { mk = topo_pred(g, end, nullptr); }); rep("B  topological relaxation, 2 preds, ids in topo order", t, g.n, mk);
    // two independent replicas on two cores (sweep parallelism)
    std::vector<i64> end2(g.n); t = wbest(R, [&] { std::thread a([&] { topo_pred(g, end, nullptr); }), b([&] { topo_pred(g, end2, nullptr); }); a.join(); b.join(); });
    rep("B  x2 replicas on 2 cores (per task of both)", t, size_t(g.n) * 2, mk);
    sims(g, "slot ids");
    std::vector<i64> r1(g.n), r2(g.n); std::vector<uint8_t> d1(g.n), d2(g.n);
    t = wbest(R, [&] { std::thread a([&] { DHeap<4> h; event_sim(g, h, r1, d1); }), b([&] { DHeap<4> h; event_sim(g, h, r2, d2); }); a.join(); b.join(); });
    rep("D2 x2 replicas on 2 cores (per task of both)", t, size_t(g.n) * 2, mk);
  }
  {
    Grid g; build(g, p, m, true, true); std::vector<i64> end(g.n); std::vector<i64> rdy(g.n); std::vector<uint8_t> deg(g.n); std::vector<u32> q(g.n);
    kahn(g, rdy, deg, q, false);
    double t = best(R, [&] { mk = topo_pred(g, end, q.data()); }); rep("B' topological relaxation via order[], stage-major ids", t, g.n, mk);
    sims(g, "stage-major ids");
  }
  printf("hold model (pop+push), ns per pair: N, std::pq, 2-ary128, 4-ary128, 8-ary128, radix, wheel\n");
  for (size_t N : {size_t(64), size_t(1024), size_t(16384), size_t(262144), size_t(4194304)}) {
    size_t ops = 4'000'000; StdPQ a; DHeap<2> b; DHeap<4> d; DHeap<8> e; Radix f; int sh = 31; while (sh > 4 && (u64(N) << sh) > 2'000'000'000ull * 2) sh--; u32 nb = 1; while ((u64(nb) << sh) < 4'000'000'000ull) nb <<= 1; Wheel w(sh, nb);
    double x1 = hold(a, N, ops), x2 = hold(b, N, ops), x3 = hold(d, N, ops), x4 = hold(e, N, ops), x5 = hold(f, N, ops), x6 = hold(w, N, ops);
    printf("%9zu %8.1f %8.1f %8.1f %8.1f %8.1f %8.1f\n", N, x1, x2, x3, x4, x5, x6); fflush(stdout);
  }
}
