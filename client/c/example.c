/* Reads an epoch from a gateway's Unix socket, and prints a line for each batch: its number, its samples, their bytes, the CRC-32C of
 * table and samples as it was computed here, and the way by which it came.
 *
 *   cc -O2 -o example example.c && ./example /run/millrace/socket '/v1/datasets/photos/epochs/0' 'batch_size=64&seed=3' */
#include "millrace_shared.h"

static uint32_t update(uint32_t crc, const unsigned char *p, uint64_t n) {
  static uint32_t table[256];
  for (uint32_t i = 0; !table[255] && i < 256; i++) {
    uint32_t v = i;
    for (int bit = 0; bit < 8; bit++) v = v >> 1 ^ (v & 1 ? 0x82f63b78u : 0);
    table[i] = v;
  }
  while (n--) crc = table[(crc ^ *p++) & 255] ^ crc >> 8;
  return crc;
}

int main(int argc, char **argv) {
  struct millrace m;
  struct millrace_batch b;
  char path[4096];
  if (argc != 4) {
    fprintf(stderr, "usage: example SOCKET EPOCH-PATH QUERY\n");
    return 2;
  }
  if (millrace_connect(&m, argv[1])) {
    perror(argv[1]);
    return millrace_close(&m), 1;
  }
  for (unsigned number = 0;; number++) {
    snprintf(path, sizeof path, "%s/batches/%u?format=framed%s%s", argv[2], number, *argv[3] ? "&" : "", argv[3]);
    if (millrace_get(&m, path, &b)) {
      int ended = errno == ENOENT;
      if (!ended) fprintf(stderr, "%s: %s (status %d)\n", path, strerror(errno), b.status);
      millrace_release(&m, &b);
      return millrace_close(&m), !ended;
    }
    uint32_t crc = ~update(update(~0u, b.table, millrace_u32(b.table + 28)), b.samples, b.bytes);
    if (crc != b.crc32c) {
      fprintf(stderr, "%s: CRC-32C %08x, want %08x\n", path, crc, b.crc32c);
      millrace_release(&m, &b);
      return millrace_close(&m), 1;
    }
    printf("%u %u %llu %08x %s\n", number, b.count, (unsigned long long)b.bytes, crc, b.shared ? "memory" : "bytes");
    millrace_release(&m, &b);
  }
}
