"""CRC-32C, which Python's standard library does not have."""

_TABLE = []
for _n in range(256):
    for _ in range(8):
        _n = _n >> 1 ^ (0x82F63B78 if _n & 1 else 0)
    _TABLE.append(_n)


def crc32c(data: bytes, crc: int = 0) -> int:
    """Returns the CRC-32C (Castagnoli) of data. crc is the checksum of the preceding data."""
    crc ^= 0xFFFFFFFF
    table = _TABLE
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF
