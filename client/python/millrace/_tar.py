"""Members of a tar sample, found in memory without a copy. The sample was checked when it was indexed; here it is only read."""

from __future__ import annotations

from .errors import IntegrityError

BLOCK = 512


def members(data: memoryview) -> list[tuple[str, memoryview]]:
    """Returns name and content of every regular member of a tar, in order."""
    out: list[tuple[str, memoryview]] = []
    at, end = 0, len(data)
    name, size = "", -1
    while at + BLOCK <= end:
        head = bytes(data[at : at + BLOCK])
        at += BLOCK
        if not head.strip(b"\0"):
            break
        length = _number(head[124:136])
        if length > end - at:
            raise IntegrityError(f"a tar member of {length} bytes, where {end - at} are left")
        kind = head[156:157]
        if kind in (b"x", b"g", b"L", b"K"):
            content = bytes(data[at : at + length])
            if kind == b"L":
                name = _text(content.split(b"\0", 1)[0])
            elif kind == b"x":
                records = _pax(content)
                name = _text(records[b"path"]) if b"path" in records else name
                if b"size" in records:
                    size = int(records[b"size"])
        else:
            if size >= 0:
                length = size
                if length > end - at:
                    raise IntegrityError(f"a tar member of {length} bytes, where {end - at} are left")
            if kind in (b"0", b"\0", b"7"):
                out.append((name or _plain_name(head), data[at : at + length]))
            name, size = "", -1
        at += (length + BLOCK - 1) // BLOCK * BLOCK
    return out


def split_name(name: str) -> tuple[str, str]:
    """Divides a member's name into the sample's key and the part: at the first dot of its base name, as WebDataset does."""
    slash = name.rfind("/") + 1
    dot = name.find(".", slash)
    return (name, "") if dot < 0 else (name[:dot], name[dot + 1 :])


def hidden(name: str) -> bool:
    """Says whether a member is one that programs leave beside data: `._a.jpg`, `.git/config`, `__MACOSX/a.jpg`, `Thumbs.db`."""
    *directories, base = name.split("/")
    return (
        any(e.startswith(".") and e not in (".", "..") for e in (*directories, base))
        or "__MACOSX" in directories
        or base.lower() in ("thumbs.db", "desktop.ini")
    )


def _plain_name(head: bytes) -> str:
    name = head[:100].split(b"\0", 1)[0]
    if head[257:263] == b"ustar\0":
        prefix = head[345:500].split(b"\0", 1)[0]
        if prefix:
            name = prefix + b"/" + name
    return _text(name)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _number(raw: bytes) -> int:
    if raw[0] & 0x80:
        return int.from_bytes(bytes([raw[0] & 0x7F]) + raw[1:], "big")
    try:
        return int(raw.strip(b" \0") or b"0", 8)
    except ValueError:
        raise IntegrityError("a tar header with a length that is no number") from None


def _pax(content: bytes) -> dict[bytes, bytes]:
    out: dict[bytes, bytes] = {}
    while content:
        digits, space, _ = content.partition(b" ")
        if not space or not digits.isdigit() or not len(digits) < int(digits) <= len(content):
            raise IntegrityError("a tar member's pax records are damaged")
        record, content = content[len(digits) + 1 : int(digits) - 1], content[int(digits) :]
        name, _, value = record.partition(b"=")
        out[name] = value
    return out
