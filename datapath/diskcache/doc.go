// Package diskcache keeps chunks in files, between memory and the store, so that they survive a restart. It knows no
// dataset and no HTTP: a chunk is a key and its bytes.
//
// What it guarantees:
//
//   - No byte leaves it that was not compared. Every read compares the CRC-32C of all that it read, of the whole chunk or of
//     each piece, and the footer says whose bytes they are; a file that is torn, wrong, foreign or of another version is
//     removed and counted.
//   - A file gets its name only after its bytes and its footer are on the medium, and never changes afterwards. Whoever
//     reads it while it is removed reads on, from its open descriptor.
//   - A failing disk is nobody's problem. Read says "not here" and Write says "not kept"; neither returns an error. A
//     disk that refuses writes gets none for a while, and then the next one finds out whether it works again; one that
//     fails to read likewise. What can still be read of it is. Where others have filled the file system, chunks take the
//     place of chunks.
//   - A disk that hangs keeps no caller: Read, Write, Reject, Hold and Close return after a few seconds, and Read and
//     Write when their context ends. Until the disk goes on it is left alone. Only Open waits for it.
//   - No more than MaxBytes are taken, footers and the file system's rounding included.
//   - A chunk is written over another only if the plans of the readers say that it saves a read: Belady's rule with
//     bypass (L. A. Belady, "A study of replacement algorithms for a virtual-storage computer", 1966). What was
//     merely used lately displaces nothing, so a disk is not worn out by an epoch that is larger than it.
//
// What it does not promise: that a chunk written before a power cut is there afterwards. The directory is not flushed
// after a rename, which would cost a second flush for each chunk to save one read of the store; what is there is whole, or is
// found out.
//
// Files are read by position into the caller's memory, never mapped: a page that cannot be read kills a process that maps
// it, and is an error like any other to one that reads.
//
// The directory holds:
//
//	millrace-disk-cache.json   what this is: format, version, the datasets whose chunks it holds
//	millrace-disk-cache.lock   locked while a process uses it
//	chunks/00 ... chunks/ff    the files, each named by a hash of its key
package diskcache
