"""The placement of docs/spec/placement.md, written only from that page: slow, short, standard library only."""

MASK = (1 << 64) - 1
GAMMA = 0x9E3779B97F4A7C15
POINT = 38


def extend(k, w):
    z = ((k ^ w) + GAMMA) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def words(data):
    return [int.from_bytes(data[i : i + 8], "little") for i in range(0, len(data), 8)]


def chain(numbers):
    k = 0
    for w in numbers:
        k = extend(k, w)
    return k


def chunk_key(digest):
    return chain(words(digest))


def member_key(name):
    data = name.encode("utf-8")
    return chain([len(data)] + words(data))


def log2(i):
    t, x = 0, (256 + i) << 55
    for _ in range(POINT):
        t, x = 2 * t, (x * x) >> 63
        if x >= 1 << 64:
            t, x = t + 1, x >> 1
    return t


TABLE = [log2(i) for i in range(256)] + [1 << POINT]


def minus_log2(u):
    u = u or 1
    z = 64 - u.bit_length()
    y = u << z
    i, f = (y >> 55) - 256, (y >> 23) % (1 << 32)
    return ((z + 1) << POINT) - TABLE[i] - (((TABLE[i + 1] - TABLE[i]) * f) >> 32)


def owner(members, digest, left_out=()):
    """Returns the ID of the owner, or None if there is none."""
    there = [m for m in members if m["weight"] > 0 and m["id"] not in left_out]
    key = chunk_key(digest)
    best = None
    for m in sorted(there, key=lambda m: m["id"].encode("utf-8")):
        u = extend(member_key(m["id"]), key)
        if best is None:
            best = m, u
            continue
        ours, theirs = minus_log2(u) * best[0]["weight"], minus_log2(best[1]) * m["weight"]
        if ours < theirs or (ours == theirs and u > best[1]):
            best = m, u
    return best and best[0]["id"]


def owners(members, digest):
    """Returns the owner, the second choice, and so on."""
    out = []
    while (name := owner(members, digest, out)) is not None:
        out.append(name)
    return out
