"""The order of docs/order.md, written from that page alone: slow, short, standard library only."""

import re
from bisect import bisect_left, bisect_right
from functools import lru_cache
from hashlib import sha256
from itertools import accumulate, pairwise
from math import isqrt

MASK = (1 << 64) - 1
GAMMA = 0x9E3779B97F4A7C15
EXACT = 128
ROUNDS = 8


def mix(z):
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def key(purpose, *numbers):
    name = purpose.encode("ascii")
    words = [len(name)]
    words += [int.from_bytes(name[i : i + 8], "little") for i in range(0, len(name), 8)]
    k = 0
    for w in words + list(numbers):
        k = mix(((k ^ w) + GAMMA) & MASK)
    return k


def word(k, c):
    return mix((k + (c + 1) * GAMMA) & MASK)


def draw(k, i, n):
    limit = (1 << 64) % n
    while True:
        product = word(k, i) * n
        if product & MASK >= limit:
            return product >> 64
        i += 1 << 32


def shuffled(k, n):
    p = list(range(n))
    for i in range(n - 1, 0, -1):
        j = draw(k, i, i + 1)
        p[i], p[j] = p[j], p[i]
    return p


class Exact:
    """A permutation that is laid out."""

    def __init__(self, k, n):
        self.places = shuffled(k, n)

    def at(self, i):
        return self.places[i]

    def place(self, v):
        return self.places.index(v)


class Feistel:
    """A permutation of any size, in constant memory."""

    def __init__(self, k, n):
        self.k, self.n = k, n
        self.a = isqrt(n - 1) + 1
        self.b = -(-n // self.a)

    def add(self, i, half, n):
        return (word(self.k, (i << 32) + half) * n) >> 64

    def once(self, x):
        left, right = divmod(x, self.b)
        for i in range(ROUNDS):
            if i % 2 == 0:
                left = (left + self.add(i, right, self.a)) % self.a
            else:
                right = (right + self.add(i, left, self.b)) % self.b
        return left * self.b + right

    def back(self, x):
        left, right = divmod(x, self.b)
        for i in reversed(range(ROUNDS)):
            if i % 2 == 0:
                left = (left - self.add(i, right, self.a)) % self.a
            else:
                right = (right - self.add(i, left, self.b)) % self.b
        return left * self.b + right

    def at(self, i):
        i = self.once(i)
        while i >= self.n:
            i = self.once(i)
        return i

    def place(self, v):
        v = self.back(v)
        while v >= self.n:
            v = self.back(v)
        return v


@lru_cache(maxsize=4096)
def perm(k, n):
    return Exact(k, n) if n <= EXACT else Feistel(k, n)


class Stored:
    """The shuffle `none`."""

    def __init__(self, counts, window, seed, epoch):
        pass

    def at(self, t):
        return t

    def position(self, x):
        return x


class Full:
    """The shuffle `full`."""

    def __init__(self, counts, _window, seed, epoch):
        self.perm = perm(key("full", seed, epoch), sum(counts))

    def at(self, t):
        return self.perm.at(t)

    def position(self, x):
        return self.perm.place(x)


def prefix(counts):
    return [0] + list(accumulate(counts))


class Window:
    """The shuffle `window`."""

    def __init__(self, counts, window, seed, epoch, strata=0):
        n = len(counts)
        self.seed, self.epoch, self.strata = seed, epoch, strata
        self.first = prefix(counts)
        self.order = shuffled(key("chunks", seed, epoch), n)
        rows, width = n, 1
        if strata:
            rows, width = -(-n // strata), strata
            self.order = self.stratified(self.order)
        self.begin = prefix(counts[c] for c in self.order)
        windows = -(-rows // (window // width))
        self.bounds = [min(n, i * rows // windows * width) for i in range(windows + 1)] if n else [0]

    def stratum(self, chunk):
        return perm(key("strata"), len(self.first) - 1).at(chunk) % self.strata

    def stratified(self, sequence):
        """Row by row, the next chunk of every stratum that still has one."""
        waiting = {}
        for chunk in sequence:
            waiting.setdefault(self.stratum(chunk), []).append(chunk)
        out, row = [], 0
        while waiting:
            p = perm(key("strata-row", self.seed, self.epoch, row), self.strata)
            for s in sorted(waiting, key=p.place):
                out.append(waiting[s].pop(0))
            waiting = {s: chunks for s, chunks in waiting.items() if chunks}
            row += 1
        return out

    def homes(self):
        return self.strata

    def home(self, t):
        """The stratum of the sample at position t."""
        return self.stratum(bisect_right(self.first, self.at(t)) - 1)

    def chunk_home(self, chunk):
        return [self.stratum(chunk), self.strata]

    def permutation(self, i):
        lo, hi = self.begin[self.bounds[i]], self.begin[self.bounds[i + 1]]
        return lo, perm(key("window", self.seed, self.epoch, i), hi - lo)

    def at(self, t):
        i = bisect_right(self.bounds, bisect_right(self.begin, t) - 1) - 1
        lo, p = self.permutation(i)
        x = lo + p.at(t - lo)
        place = bisect_right(self.begin, x) - 1
        return self.first[self.order[place]] + x - self.begin[place]

    def position(self, x):
        chunk = bisect_right(self.first, x) - 1
        place = self.order.index(chunk)
        i = bisect_right(self.bounds, place) - 1
        lo, p = self.permutation(i)
        return lo + p.place(self.begin[place] + x - self.first[chunk] - lo)


class Slot:
    """The shuffle `slot`."""

    def __init__(self, counts, window, seed, epoch):
        self.seed, self.epoch = seed, epoch
        self.first = prefix(counts)
        n, self.samples = len(counts), sum(counts)
        laid_out = perm(key("chunks"), n)
        order = [c for c in map(laid_out.at, range(n)) if counts[c] > 0]
        begin = prefix(counts[c] for c in order)
        self.m = min(window, self.samples)
        self.cuts = [j * self.samples // self.m for j in range(self.m + 1)] if self.m else [0]
        self.lanes = lru_cache(maxsize=None)(lambda j: self.lane(j, order, begin))

    def lane(self, j, order, begin):
        """The pieces of lane j as this epoch orders them, (chunk, g, length), their first offsets, and the turn."""
        lo, hi = self.cuts[j], self.cuts[j + 1]
        pieces = []
        for place in range(bisect_right(begin, lo) - 1, bisect_left(begin, hi)):
            a, b = max(lo, begin[place]), min(hi, begin[place + 1])
            pieces.append((order[place], a - begin[place], b - a))
        p = perm(key("lane", self.seed, self.epoch, j), len(pieces))
        pieces = [pieces[p.at(i)] for i in range(len(pieces))]
        turn = draw(key("turn", self.seed, self.epoch, j), 0, hi - lo)
        return pieces, prefix(length for _, _, length in pieces), turn

    def row(self, k):
        """The lanes of row k and their permutation."""
        lanes = range(self.m)
        if k == self.samples // self.m:
            lanes = [j for j in lanes if self.cuts[j + 1] - self.cuts[j] > k]
        return lanes, perm(key("row", self.seed, self.epoch, k), len(lanes))

    def piece(self, chunk, g, length):
        return perm(key("piece", self.seed, self.epoch, chunk, g), length)

    def homes(self):
        return self.m

    def home(self, t):
        """The lane of the sample at position t."""
        k, i = divmod(t, self.m)
        lanes, p = self.row(k)
        return lanes[p.at(i)]

    def at(self, t):
        j = self.home(t)
        pieces, starts, turn = self.lanes(j)
        offset = (t // self.m + turn) % starts[-1]
        i = bisect_right(starts, offset) - 1
        chunk, g, length = pieces[i]
        return self.first[chunk] + g + self.piece(chunk, g, length).at(offset - starts[i])

    def chunk_home(self, chunk):
        """The lane with most of a chunk, and how many lanes there are; [0, 0] for an empty chunk."""
        held = [sum(length for c, _, length in self.lanes(j)[0] if c == chunk) for j in range(self.m)]
        if not any(held):
            return [0, 0]
        return [held.index(max(held)), self.m]

    def position(self, x):
        chunk = bisect_right(self.first, x) - 1
        inside = x - self.first[chunk]
        for j in range(self.m):
            pieces, starts, turn = self.lanes(j)
            for i, (c, g, length) in enumerate(pieces):
                if c == chunk and g <= inside < g + length:
                    offset = starts[i] + self.piece(c, g, length).place(inside - g)
                    k = (offset - turn) % starts[-1]
                    lanes, p = self.row(k)
                    return k * self.m + p.place(lanes.index(j))
        raise ValueError(x)


SHUFFLES = {"none": Stored, "window": Window, "slot": Slot, "full": Full}


def batches(samples, size, tail):
    return samples // size if tail == "drop" else -(-samples // size)


def share(samples, size, tail, m, rank, world_size):
    """The positions of a rank's share of batch m, and how many of them repeat samples."""
    n = size if tail == "pad" else min(size, samples - m * size)
    first, last = m * size + rank * n // world_size, m * size + (rank + 1) * n // world_size
    return [t % samples for t in range(first, last)], max(0, last - max(first, samples))


class Importance:
    """A shuffle whose samples are drawn by weight."""

    def __init__(self, shuffle, counts, weights, window, seed, epoch, **strata):
        self.samples = len(weights)
        self.sums = prefix(weights)
        self.total = self.sums[-1]
        self.phase = word(key("importance", seed, epoch), 0) % self.total
        self.draws = [self.before(self.sums[x]) for x in prefix(counts)]  # before each chunk
        virtual = [b - a for a, b in zip(self.draws, self.draws[1:])]
        self.order = SHUFFLES[shuffle](virtual, window, seed, epoch, **strata)

    def before(self, weight):
        """F, of the sum of the weights before a sample"""
        return (weight * self.samples + self.phase) // self.total

    def owner(self, v):
        """The sample of virtual sample v: the least i with P_(i+1) >= the bound."""
        bound = -(-((v + 1) * self.total - self.phase) // self.samples)
        return bisect_left(self.sums, bound, lo=1) - 1

    def of(self, x):
        """The virtual samples of sample x."""
        return self.before(self.sums[x]), self.before(self.sums[x + 1])

    def at(self, t):
        return self.owner(self.order.at(t))


def deal(lengths, world_size):
    """The shares of all ranks of a batch whose bytes are balanced."""
    places = sorted(range(len(lengths)), key=lambda place: (-lengths[place], place))
    rows = [places[i : i + world_size] for i in range(0, len(places), world_size)]
    shares = [[] for _ in range(world_size)]
    for k, row in enumerate(rows):
        for column, place in enumerate(row):
            shares[column if k % 2 == 0 else world_size - 1 - column].append(place)
    return [sorted(share) for share in shares]


def deal_homes(homes, world_size, groups):
    """The shares of all ranks of a batch, of whose samples the groups where they are at home are given, and the number of transfers."""
    n = len(homes)
    quota = [(r + 1) * n // world_size - r * n // world_size for r in range(world_size)]
    group_of = [r * groups // world_size for r in range(world_size)]
    quotas = [sum(q for q, of in zip(quota, group_of) if of == g) for g in range(groups)]
    held = [[place for place in range(n) if homes[place] == g] for g in range(groups)]
    transfers = 0
    while True:
        over = [len(places) - q for places, q in zip(held, quotas)]
        count = min(max(over), -min(over))
        if count == 0:
            break
        giver, taker = over.index(max(over)), over.index(min(over))
        held[taker] += held[giver][-count:]
        del held[giver][-count:]
        transfers += 1
    left = [sorted(places) for places in held]
    shares = []
    for q, g in zip(quota, group_of):
        shares.append(left[g][:q])
        del left[g][:q]
    return shares, transfers


class Quarantine:
    """Healthy samples in the place of bad ones."""

    def __init__(self, seed, counts, bad):
        self.seed, self.first, self.bad = seed, prefix(counts), set(bad)

    def chunk(self, c):
        return range(self.first[c], self.first[c + 1])

    def sub(self, epoch, x):
        if x not in self.bad:
            return x
        chunk = bisect_right(self.first, x) - 1
        j = sum(y in self.bad for y in range(self.first[chunk], x))
        n = len(self.first) - 1
        for c in range(chunk, chunk + n):
            healthy = [y for y in self.chunk(c % n) if y not in self.bad]
            if healthy:
                return healthy[(j + word(key("quarantine", self.seed, epoch, chunk), 0)) % len(healthy)]
        raise ValueError("all samples are bad")

    def order_digest(self, plan):
        """plan is the order digest without quarantine."""
        words = [key("quarantine"), self.seed, len(self.first) - 1] + self.first[1:] + [len(self.bad)] + sorted(self.bad)
        return sha256(plan.encode("ascii") + word_bytes(*words)).hexdigest()[:32]


def subset_counts(counts, members):
    """How many samples of each chunk belong to a subset, which has these samples, ascending."""
    first = prefix(counts)
    return [bisect_left(members, b) - bisect_left(members, a) for a, b in pairwise(first)]


def subset_part(parts, salt, name):
    """Which of some subsets a sample belongs to, by its key (bytes): parts are their sizes, relative to each other."""
    u = int.from_bytes(sha256(b"millrace subset\n" + salt.encode() + b"\n" + name).digest()[:8], "big")
    return bisect_right(list(accumulate(parts)), u * sum(parts) >> 64)


def shard_part(patterns, shard):
    """Which of some subsets a sample belongs to, by the key of its shard: the first one whose pattern takes it; -1 if none does."""
    for i, pattern in enumerate(patterns):
        name = shard if "/" in pattern else shard.rsplit("/", 1)[-1]
        if re.fullmatch(_expression(pattern), name, re.DOTALL):
            return i
    return -1


def _expression(pattern):
    """The regular expression of a pattern of Go's path.Match: *, ?, [a-z], [^a-z] and \\ before any character."""
    out, rest = "", pattern
    while rest:
        char, rest = rest[0], rest[1:]
        if char == "*":
            out += "[^/]*"
        elif char == "?":
            out += "[^/]"
        elif char == "\\":
            out, rest = out + re.escape(rest[0]), rest[1:]
        elif char == "[":
            negated = rest.startswith("^")
            inside, rest = re.match(r"((?:\\.|[^\]\\])+)\]", rest[negated:], re.DOTALL).group(1), rest[negated:]
            rest = rest[len(inside) + 1 :]
            out += "[" + "^" * negated + inside.replace("[", "\\[").replace("^", "\\^") + "]"
        else:
            out += re.escape(char)
    return out


class Mixture:
    """Of which source each position is: sources are (samples, weight, count in a batch)."""

    def __init__(self, seed, sources, t=0):
        self.seed, self.sources = seed, sources
        self.batch = sum(count for _, _, count in sources)
        self.t = t or sum(samples for samples, _, _ in sources)
        if self.batch:
            self.t = -(-self.t // self.batch) * self.batch

    def source_seed(self, i):
        return word(key("source", self.seed, i), 0)

    def counts(self, t):
        """n_0(t), n_1(t), ... of a mixture by weight"""
        out, rest = [], sum(weight for _, weight, _ in self.sources)
        for i, (_, weight, _) in enumerate(self.sources):
            n = (t * weight + word(key("mixture", self.seed, i), 0) % rest) // rest
            out.append(n)
            t, rest = t - n, rest - weight
        return out

    def listed(self, epoch, batch):
        """Source and number over all own epochs, place by place of a batch of fixed counts."""
        before = epoch * (self.t // self.batch) + batch
        places = [(i, before * count + j) for i, (_, _, count) in enumerate(self.sources) for j in range(count)]
        p = perm(key("mix", self.seed, epoch, batch), self.batch)
        return [places[p.at(place)] for place in range(self.batch)]

    def before(self, epoch, position):
        """How many of all positions before this one are of each source."""
        if not self.batch:
            return self.counts(epoch * self.t + position)
        batch, place = divmod(position, self.batch)
        out = [(epoch * (self.t // self.batch) + batch) * count for _, _, count in self.sources]
        for i, _ in self.listed(epoch, batch)[:place]:
            out[i] += 1
        return out

    def at(self, epoch, position):
        """Source, own epoch and own position."""
        if self.batch:
            i, n = self.listed(epoch, position // self.batch)[position % self.batch]
        else:
            a, b = self.counts(epoch * self.t + position), self.counts(epoch * self.t + position + 1)
            i = [y - x for x, y in zip(a, b)].index(1)
            n = a[i]
        return [i, n // self.sources[i][0], n % self.sources[i][0]]

    def order_digest(self, plans):
        """plans are the order digests of the sources."""
        data = [word_bytes(1, key("mixture"), self.seed, self.t, len(self.sources))]
        for source, plan in zip(self.sources, plans):
            data += [word_bytes(*source), plan.encode("ascii")]
        return sha256(b"".join(data)).hexdigest()[:32]


def word_bytes(*words):
    return b"".join(w.to_bytes(8, "little") for w in words)


def order_digest(shuffle, counts, window, seed, importance="", weights=(), strata=0, subset=""):
    """The name of the order of all epochs. With a subset the counts are those of its samples."""
    first = prefix(counts)
    words = [1, key(shuffle), first[-1]]
    if shuffle != "none" or importance:
        words.append(seed)
    if shuffle in ("window", "slot"):
        words += [window, len(counts)] + first[1:]
    if strata:
        words += [key("strata"), strata]
    if importance:
        name = importance.encode("ascii")
        words += [len(name)] + [int.from_bytes(name[i : i + 8], "little") for i in range(0, len(name), 8)]
        sums = prefix(weights)
        words += [len(counts)] + [sums[b] - sums[a] for a, b in pairwise(first)]
    if subset:
        name = subset.encode("ascii")
        words += [key("subset"), len(name)] + [int.from_bytes(name[i : i + 8], "little") for i in range(0, len(name), 8)]
    return sha256(word_bytes(*words)).hexdigest()[:32]
