// Package millrace is a training-data gateway: point it at shards in any S3-compatible
// bucket, or in a directory, and every machine that trains reads its shuffled batches
// with one HTTP GET. This package holds no code; it is the tour.
//
// A batch is an address. Its bytes are a pure function of the index generation, the
// shuffle, the seed, the epoch, the batch, the batch size, the rank and the world size.
// The gateway keeps no session, so any replica answers any request with the same bytes.
//
// A batch is a small, valid shard: the stored bytes of its samples one after another,
// with the framing of the dataset's own format. Nothing is parsed or encoded on the way.
//
// Chunks, contiguous ranges of a shard of about 8 MiB, are the unit of everything that
// costs: they are what the store is asked for, what the cache holds and what the first
// stage of the shuffle orders.
//
// A request walks this line from left to right, and its bytes come back:
//
//	client -HTTP-> gateway -> shuffle      which samples, in which order   (pure)
//	                  |
//	                  +-----> chunkindex   where each sample lies          (immutable)
//	                  |
//	                  +-----> datapath     memory -> [disk] -> [peer] -> store
//	                          chunkcache   diskcache   s3backend or a directory
//
// Read shuffle for the order, chunkindex for reading the index and chunkindex/build for making it, lookahead for who reads and what
// is needed when, datapath for how it is brought, chunkcache and diskcache for what stays,
// importance for drawing samples by their losses, selection for subsets and bad samples,
// gateway for HTTP (gateway/address for URLs, gateway/plans for what a batch is answered
// from, gateway/body for its form), pack for making shards, client for reading an epoch,
// and cmd/internal/node for how it is wired. Of gateways that are one cache, cluster knows who is there,
// placement who holds which chunk, and peer how one asks another. internal/objstore is the
// seam to every store. simulate runs order, readers and policies under a clock of its own;
// experiments puts published ideas to the test. docs/dev/datapath.md follows one batch
// through datapath. arch_test.go holds the floor plan: who may import whom.
package millrace
