// Package diskcache keeps chunks in files, between memory and the store, so that they survive a
// restart. It is independent of datasets and HTTP: a chunk is a key and its bytes.
//
// Guarantees:
//
//   - Every byte is verified before it is returned. Each read compares the CRC-32C of all bytes
//     that it read, of the whole chunk or of each piece, and the footer names the chunk. A torn,
//     corrupt or foreign file, or one of another version, is removed and counted.
//   - A file gets its name only after its bytes and its footer are synced, and never changes
//     afterwards. A read continues from its open descriptor if the file is removed.
//   - Disk errors do not reach callers. Read reports a miss and Write reports that the chunk was
//     not kept. After failed writes, writes are off for a while; then the next write tests the
//     disk. The same applies to reads. Chunks that are still readable are served. If other files
//     have filled the file system, new chunks replace old ones.
//   - A disk that hangs blocks no caller: Read, Write, Reject, Hold and Close return after a few
//     seconds, and Read and Write also return when their context ends. The disk gets no calls until it
//     responds. Only Open waits for it.
//   - The cache uses at most MaxBytes, including footers and the file system's rounding.
//   - A chunk replaces another one only if the plans of the readers show that this saves a read:
//     Belady's rule with bypass (L. A. Belady, "A study of replacement algorithms for a
//     virtual-storage computer", 1966). Recent use alone replaces nothing, so an epoch larger than
//     the disk does not wear it out.
//
// A chunk written before a power failure may be missing afterwards. The directory is not synced
// after a rename: that would cost a second sync per chunk to save one store read. Files that exist
// are complete, or their corruption is detected.
//
// Files are read into the caller's memory, never mapped: a page that cannot be read kills a process
// that maps it, but is an ordinary error for a read.
//
// The directory holds:
//
//	millrace-disk-cache.json   marker: format, version, the datasets whose chunks it holds
//	millrace-disk-cache.lock   locked while a process uses it
//	chunks/00 ... chunks/ff    the files, each named by a hash of its key
package diskcache
