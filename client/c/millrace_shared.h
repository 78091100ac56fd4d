/* Reads batches from a Millrace gateway on the same machine, in memory that the gateway shares: docs/answers.md, "Batches in shared
 * memory". C99, Linux, no library. One thread uses a connection at a time. Each function returns 0, or -1 with errno: EPROTO, the answer
 * contradicts itself; ENOENT, the epoch has no such batch; EREMOTEIO, any other status, which the field status of the batch holds. After
 * an error but ENOENT, close the connection. Include this file before all others. */
#ifndef MILLRACE_SHARED_H
#define MILLRACE_SHARED_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* F_GET_SEALS, MADV_DONTFORK */
#endif

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { MILLRACE_SEGMENTS = 64, MILLRACE_HEAD = 16384 }; /* segments of a connection, and bytes of a head, at most */

struct millrace_segment { uint64_t number; void *at; size_t size; }; /* size 0: a free place */
struct millrace { int socket, came; struct millrace_segment segments[MILLRACE_SEGMENTS]; char release[2048]; };
struct millrace_batch {
  int status, shared;           /* of HTTP; whether the samples lie in shared memory, and not behind the table */
  uint32_t count, crc32c;       /* samples; checksum of table and samples, as the gateway says */
  uint64_t lease, bytes;        /* bytes of all samples */
  unsigned char *table;         /* of the framed form; belongs to the batch */
  const unsigned char *samples; /* one after the other */
};

static int millrace_fault(int error) { errno = error; return -1; }
static uint32_t millrace_u32(const unsigned char *p) { return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24; }

/* Connects to a socket: no link in its place, and of this user or root where every user may put one. */
static int millrace_connect(struct millrace *m, const char *path) {
  struct sockaddr_un to = {.sun_family = AF_UNIX};
  struct stat is, in;
  char dir[sizeof to.sun_path];
  memset(m, 0, sizeof *m);
  m->socket = m->came = -1;
  if (path[0] != '/' || strlen(path) >= sizeof to.sun_path) return millrace_fault(ENAMETOOLONG);
  strcpy(to.sun_path, path);
  strcpy(dir, path);
  *(strrchr(dir, '/') + (strrchr(dir, '/') == dir)) = 0;
  if (lstat(path, &is) || stat(dir, &in)) return -1;
  if (!S_ISSOCK(is.st_mode)) return millrace_fault(ENOTSOCK);
  if ((in.st_mode & S_IWOTH) && is.st_uid != 0 && is.st_uid != geteuid()) return millrace_fault(EACCES);
  if ((m->socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) < 0) return -1;
  return connect(m->socket, (struct sockaddr *)&to, sizeof to);
}

/* Receives n bytes at most, and the descriptor that came along. */
static ssize_t millrace_receive(struct millrace *m, void *to, size_t n) {
  union { struct cmsghdr align; char bytes[CMSG_SPACE(sizeof(int))]; } control;
  struct iovec part = {to, n};
  struct msghdr msg = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
  ssize_t got;
  int fd;
  while ((got = recvmsg(m->socket, &msg, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR) {}
  for (struct cmsghdr *c = got < 0 ? NULL : CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS || c->cmsg_len != CMSG_LEN(sizeof fd)) continue;
    memcpy(&fd, CMSG_DATA(c), sizeof fd);
    if (m->came >= 0) { close(fd); return millrace_fault(EPROTO); }
    m->came = fd;
  }
  return got == 0 || (got > 0 && (msg.msg_flags & MSG_CTRUNC)) ? millrace_fault(EPROTO) : got;
}

/* Finds a line of a head, or a member of a dictionary, by its beginning. */
static const char *millrace_find(const char *in, const char *before, const char *name) {
  size_t b = strlen(before), n = strlen(name);
  for (const char *p = in; (p = strstr(p, before)); p += b)
    if (!strncasecmp(p + b, name, n)) return p + b + n;
  return NULL;
}
static int millrace_number(const char *in, const char *before, const char *name, int base, uint64_t *out) {
  const char *p = in ? millrace_find(in, before, name) : NULL;
  char *end;
  if (!p || *p == '-' || *p == '+' || *p == ' ') return millrace_fault(EPROTO);
  errno = 0;
  *out = strtoull(p, &end, base);
  return end == p || errno || *out > 999999999999999 ? millrace_fault(EPROTO) : 0; /* fifteen digits */
}

static struct millrace_segment *millrace_segment(struct millrace *m, uint64_t number, int free_one) {
  for (int i = 0; i < MILLRACE_SEGMENTS; i++)
    if (free_one ? !m->segments[i].size : m->segments[i].size && m->segments[i].number == number) return &m->segments[i];
  return NULL;
}

/* Finds the memory that the header Millrace-Shared tells of, and maps it if it is new. */
static int millrace_map(struct millrace *m, const char *said, struct millrace_batch *b) {
  const int seals = F_SEAL_SHRINK | F_SEAL_GROW | 0x10; /* F_SEAL_FUTURE_WRITE */
  uint64_t segment, size, length, number;
  struct stat is;
  if (millrace_number(said, " ", "lease=", 10, &b->lease) || millrace_number(said, " ", "segment=", 10, &segment) ||
      millrace_number(said, " ", "size=", 10, &size) || millrace_number(said, " ", "length=", 10, &length)) return -1;
  const char *mark = millrace_find(said, ", ", "descriptor");
  int fresh = mark && strchr(",; ", *mark), sealed; /* its end, too */
  struct millrace_segment *s = millrace_segment(m, segment, 0);
  if (size == 0 || size > SIZE_MAX || length > size || length != b->bytes || fresh != (m->came >= 0) || fresh != !s || (s && s->size != size))
    return millrace_fault(EPROTO);
  if (fresh) {
    if (!(s = millrace_segment(m, 0, 1)) || fstat(m->came, &is)) return millrace_fault(EPROTO);
    sealed = fcntl(m->came, F_GET_SEALS);
    if (is.st_size < 0 || (uint64_t)is.st_size != size || sealed < 0 || (sealed & seals) != seals) return millrace_fault(EPROTO);
    void *at = mmap(NULL, size, PROT_READ, MAP_SHARED, m->came, 0);
    if (at == MAP_FAILED) return -1;
    if (madvise(at, size, MADV_DONTFORK)) { munmap(at, size); return -1; } /* a child would see the next batch */
    *s = (struct millrace_segment){segment, at, size};
    close(m->came);
    m->came = -1;
  }
  b->samples = s->at;
  const char *gone = strstr(said, "gone=(");
  for (char *end = (char *)gone + 6; gone && *end != ')'; end += *end == ' ') {
    number = strtoull(gone = end, &end, 10);
    if (end == gone || !(*end == ' ' || *end == ')') || number == segment) return millrace_fault(EPROTO);
    if ((s = millrace_segment(m, number, 0))) { munmap(s->at, s->size); s->size = 0; }
  }
  return 0;
}

/* Asks for a batch by its path and query, which says format=framed. Its bytes stay until millrace_release. */
static int millrace_get(struct millrace *m, const char *path, struct millrace_batch *b) {
  char head[MILLRACE_HEAD + 1], request[MILLRACE_HEAD];
  size_t have = 0;
  ssize_t got;
  char *body = NULL;
  uint64_t status, length, table, crc;
  memset(b, 0, sizeof *b);
  int n = snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: localhost\r\nAccept: application/vnd.millrace.shared, *\x2f*\r\n%s%s%s\r\n",
                   path, *m->release ? "Millrace-Release: " : "", m->release, *m->release ? "\r\n" : "");
  if (n < 0 || (size_t)n >= sizeof request) return millrace_fault(ENAMETOOLONG);
  if (send(m->socket, request, (size_t)n, MSG_NOSIGNAL) != n) return -1;
  *m->release = 0;
  do {
    if (have == MILLRACE_HEAD) return millrace_fault(EPROTO);
    if ((got = millrace_receive(m, head + have, MILLRACE_HEAD - have)) < 0) return -1;
    head[have += (size_t)got] = 0;
  } while (!(body = strstr(head, "\r\n\r\n")) && strlen(head) == have);
  if (!body || millrace_number(head, "HTTP/1.1", " ", 10, &status) || millrace_number(head, "\r\n", "Content-Length: ", 10, &length)) return millrace_fault(EPROTO);
  *(body + 2) = 0;
  body += 4;
  have -= (size_t)(body - head);
  b->status = (int)status;
  if (have > length || length >= SIZE_MAX) return millrace_fault(EPROTO);
  if (!(b->table = malloc(length + 1))) return -1;
  memcpy(b->table, body, have);
  for (; have < length; have += (size_t)got)
    if ((got = millrace_receive(m, b->table + have, length - have)) < 0) return -1;
  b->table[length] = 0;
  if (status != 200) return millrace_fault(status == 404 && strstr((char *)b->table, "end_of_epoch") ? ENOENT : EREMOTEIO);
  if (length < 40 || memcmp(b->table, "MLRF\1\0", 6) || millrace_number(head, "\r\n", "Millrace-Crc32c: ", 16, &crc)) return millrace_fault(EPROTO);
  b->count = millrace_u32(b->table + 8);
  b->crc32c = (uint32_t)crc;
  b->bytes = millrace_u32(b->table + 32) | (uint64_t)millrace_u32(b->table + 36) << 32;
  table = millrace_u32(b->table + 28);
  if (table < 40 + 4 * (uint64_t)b->count || table > length) return millrace_fault(EPROTO);
  uint64_t sum = 0;
  for (uint32_t i = 0; i < b->count; i++) sum += millrace_u32(b->table + 40 + 4 * (size_t)i);
  if (sum != b->bytes) return millrace_fault(EPROTO);
  char *said = (char *)millrace_find(head, "\r\n", "Millrace-Shared:");
  if ((b->shared = said != NULL)) {
    said[strcspn(said, "\r")] = 0;
    return table == length ? millrace_map(m, said, b) : millrace_fault(EPROTO);
  }
  b->samples = b->table + table;
  return m->came < 0 && table + b->bytes == length ? 0 : millrace_fault(EPROTO);
}

/* Lets go of a batch: its bytes are not used any more. The gateway is told with the next request. */
static void millrace_release(struct millrace *m, struct millrace_batch *b) {
  size_t at = strlen(m->release);
  if (b->shared && at + 24 < sizeof m->release) snprintf(m->release + at, sizeof m->release - at, "%s%llu", at ? ", " : "", (unsigned long long)b->lease);
  free(b->table);
  memset(b, 0, sizeof *b);
}

/* Closes the connection. No batch of it is used any more. */
static void millrace_close(struct millrace *m) {
  for (int i = 0; i < MILLRACE_SEGMENTS; i++)
    if (m->segments[i].size) munmap(m->segments[i].at, m->segments[i].size);
  if (m->came >= 0) close(m->came);
  if (m->socket >= 0) close(m->socket);
  memset(m, 0, sizeof *m);
  m->socket = m->came = -1;
}

#endif
