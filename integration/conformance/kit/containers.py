"""Containers with reproducible bytes.

The output of a compressor varies between releases, so the compressed containers here are valid files whose blocks are stored without
compression.
"""

import struct
import zlib


def gzip_stored(data: bytes) -> bytes:
    """A gzip member with stored blocks."""
    return b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + deflate_stored(data) + struct.pack("<II", zlib.crc32(data), len(data))


def deflate_stored(data: bytes) -> bytes:
    """A deflate stream with stored blocks."""
    out = []
    for at in range(0, len(data), 0xFFFF):
        block = data[at : at + 0xFFFF]
        out.append(struct.pack("<BHH", at + 0xFFFF >= len(data), len(block), len(block) ^ 0xFFFF) + block)
    return b"".join(out)


def zstd_stored(data: bytes) -> bytes:
    """A zstd frame with stored blocks. Its header contains the length in four bytes."""
    out = [b"\x28\xb5\x2f\xfd\xa0", struct.pack("<I", len(data))]
    for at in range(0, len(data), 1 << 16):
        block = data[at : at + (1 << 16)]
        last = at + (1 << 16) >= len(data)
        out.append((len(block) << 3 | last).to_bytes(3, "little") + block)
    return b"".join(out)


def xz_stored(blocks: list[bytes]) -> bytes:
    """An xz stream with these blocks, each in stored LZMA2 chunks, with a CRC-32."""
    flags = b"\0\x01"
    out = [b"\xfd7zXZ\0" + flags + le32(zlib.crc32(flags))]
    records = []
    for data in blocks:
        head = b"\x02\0\x21\x01\x08\0\0\0"  # 12 bytes including the checksum; one filter, LZMA2, a dictionary of 64 KiB
        packed = [head, le32(zlib.crc32(head))]
        for at in range(0, len(data), 1 << 16):
            chunk = data[at : at + (1 << 16)]
            packed.append(struct.pack(">BH", 2 if at else 1, len(chunk) - 1) + chunk)
        block = b"".join([*packed, b"\0"])
        out += [block, bytes(-len(block) % 4), le32(zlib.crc32(data))]
        records.append(varint(len(block) + 4) + varint(len(data)))
    index = b"\0" + varint(len(records)) + b"".join(records)
    index += bytes(-len(index) % 4)
    back = le32(len(index) // 4) + flags  # the field includes the index's checksum, and is one less
    return b"".join([*out, index, le32(zlib.crc32(index)), le32(zlib.crc32(back)), back, b"YZ"])


def le32(n: int) -> bytes:
    return struct.pack("<I", n)


def varint(n: int) -> bytes:
    out = bytearray()
    while n >= 0x80:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    return bytes([*out, n])


def zip_member(name: str, data: bytes, deflated: bool) -> bytes:
    """Returns an archive member with its header."""
    packed = deflate_stored(data) if deflated else data
    sizes = (zlib.crc32(data), len(packed), len(data), len(name), 0)
    header = struct.pack("<4s5H3I2H", b"PK\x03\x04", 20, 0, 8 if deflated else 0, 0, 0x21, *sizes)  # dated 1 January 1980
    return header + name.encode() + packed


def zip_archive(members: list[tuple[str, bytes]], deflated: bool) -> bytes:
    """A zip archive whose members are stored, or deflated in stored blocks."""
    out, directory, at = [], [], 0
    for name, data in members:
        out.append(zip_member(name, data, deflated))
        both = out[-1][4:30]
        directory.append(b"PK\x01\x02\x14\0" + both + struct.pack("<HHHII", 0, 0, 0, 0, at) + name.encode())
        at += len(out[-1])
    size = sum(map(len, directory))
    end = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, len(members), len(members), size, at, 0)
    return b"".join([*out, *directory, end])
