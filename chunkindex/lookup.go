package chunkindex

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"sort"
)

// maxSameHash is how many keys may share a hash: far more than chance gives in any dataset, and few enough
// that an index made for it costs a look-up no more than that.
const maxSameHash = 16

// Lookup returns the sample that has a key; ok is false for a key that no sample has. It
// reads a few pages of the sorted hashes in the local file, and one chunk's names.
func (x *Index) Lookup(ctx context.Context, key string) (sample uint64, ok bool, err error) {
	hash := hashKey([]byte(key))
	pages := int(hashPages(x.head.samples))
	page, err := x.findPage(ctx, hash, pages)
	if err != nil {
		return 0, false, fmt.Errorf("index %.12s: %w", x.digest, err)
	}
	for seen := 0; page < pages; page++ {
		recs, err := x.page(page)
		if err != nil {
			return 0, false, fmt.Errorf("index %.12s: %w", x.digest, err)
		}
		i := sort.Search(len(recs), func(i int) bool { return recs[i].hash >= hash })
		for ; i < len(recs); i++ {
			if recs[i].hash != hash {
				return 0, false, nil
			}
			if seen++; seen > maxSameHash {
				return 0, false, fmt.Errorf("index %.12s: hash page %d: %w", x.digest, page, errMalformed)
			}
			got, err := x.Key(ctx, recs[i].sample)
			if err != nil {
				return 0, false, err
			}
			if got == key {
				return recs[i].sample, true, nil
			}
		}
	}
	return 0, false, nil
}

// findPage returns the first page whose last hash is not below hash. Hashes are
// uniform, so a guess from the hash itself is nearly right, and the search starts around it.
func (x *Index) findPage(ctx context.Context, hash uint64, pages int) (int, error) {
	lo, hi := 0, pages
	guess := int(float64(hash) / (1 << 64) * float64(pages))
	step := 1
	for lo < hi {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		guess = min(max(guess, lo), hi-1)
		recs, err := x.page(guess)
		if err != nil {
			return 0, err
		}
		switch {
		case recs[len(recs)-1].hash < hash:
			lo = guess + 1
			guess += step
		case recs[0].hash >= hash:
			hi = guess
			guess -= step
		default:
			return guess, nil
		}
		if step *= 2; step > 1<<10 {
			guess = (lo + hi) / 2
		}
	}
	return lo, nil
}

// page reads one page of the hash section and checks it.
func (x *Index) page(n int) ([]hashed, error) {
	var b [pageSize]byte
	if _, err := x.file.ReadAt(b[:], x.head.sections[secHash].offset+int64(n)*pageSize); err != nil {
		return nil, err
	}
	if crc32.Checksum(b[:pageCRC], castagnoli()) != binary.LittleEndian.Uint32(b[pageCRC:]) {
		return nil, fmt.Errorf("hash page %d: checksum is wrong", n)
	}
	count := uint64(binary.LittleEndian.Uint32(b[16*pageRecords:]))
	if want := min(pageRecords, x.head.samples-uint64(n)*pageRecords); count != want {
		return nil, fmt.Errorf("hash page %d: %w", n, errMalformed)
	}
	recs := make([]hashed, count)
	for i := range recs {
		recs[i] = hashed{binary.LittleEndian.Uint64(b[16*i:]), binary.LittleEndian.Uint64(b[16*i+8:])}
		if recs[i].sample >= x.head.samples || (i > 0 && recs[i].hash < recs[i-1].hash) {
			return nil, fmt.Errorf("hash page %d: %w", n, errMalformed)
		}
	}
	return recs, nil
}

// duplicate returns two samples that have the same key, if there are any.
func (x *Index) duplicate(ctx context.Context) (key string, a, b uint64, found bool, err error) {
	var run []hashed // records of one hash
	for n := range int(hashPages(x.head.samples)) {
		recs, err := x.page(n)
		if err != nil {
			return "", 0, 0, false, err
		}
		for _, r := range recs {
			if len(run) > 0 && run[0].hash != r.hash {
				run = run[:0]
			}
			for _, o := range run {
				k1, err := x.Key(ctx, o.sample)
				if err != nil {
					return "", 0, 0, false, err
				}
				k2, err := x.Key(ctx, r.sample)
				if err != nil {
					return "", 0, 0, false, err
				}
				if k1 == k2 {
					return k1, o.sample, r.sample, true, nil
				}
			}
			run = append(run, r)
		}
	}
	return "", 0, 0, false, nil
}
