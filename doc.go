// Package millrace is a training-data gateway: point it at shards in any S3-compatible
// bucket, or in a directory, and every machine that trains reads its shuffled batches
// with one HTTP GET. This package holds no code; it describes the repository.
//
// A batch is an address. Its bytes are a pure function of the index generation, the
// shuffle, the seed, the epoch, the batch, the batch size, the rank and the world size.
// The gateway keeps no session, so any replica answers any request with the same bytes.
//
// A batch is a small, valid shard: the stored bytes of its samples one after another,
// with the framing of the dataset's own format. Nothing is parsed or encoded on the way.
//
// A chunk is a contiguous range of a shard, about 8 MiB long. Chunks are the unit of store
// reads, of the cache, and of the first stage of the shuffle.
//
// A request passes through these packages from left to right, and its bytes come back:
//
//	client -HTTP-> gateway -> shuffle      which samples, in which order   (pure)
//	                  |
//	                  +-----> chunkindex   where each sample lies          (immutable)
//	                  |
//	                  +-----> datapath     memory -> [disk] -> [peer] -> store
//	                          chunkcache   diskcache   s3backend or a directory
//
// The packages: shuffle computes the order. chunkindex reads the index, and
// chunkindex/build makes it. lookahead tracks the readers, and when they need each chunk.
// datapath loads chunks; chunkcache and diskcache keep them. importance draws samples by
// their losses. selection holds subsets and bad samples. gateway serves HTTP:
// gateway/address parses URLs, gateway/plans manages the data that batches are made of, and
// gateway/body forms it. pack makes shards, client reads an epoch, and cmd/internal/node
// composes the process. Of several gateways that form one cache, cluster finds the members,
// placement computes the owner of a chunk, and peer sends the questions between them.
// internal/objstore is the interface to every store. simulate runs order, readers and
// policies under a simulated clock; experiments tests published ideas.
//
// docs/dev/datapath.md follows one batch through datapath. floorplan_test.go lists the imports
// that each package may have.
package millrace
