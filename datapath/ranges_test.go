package datapath

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/datapath/policy"
)

// Pieces are joined whenever the limits of a read allow it, and only then. Each piece gets its own
// bytes.
func TestJoin_JoinsAsFarAsTheBoundsAllow(t *testing.T) {
	shards := [2][]byte{make([]byte, 4<<20), make([]byte, 4<<20)}
	for i := range shards {
		for j := range shards[i] {
			shards[i][j] = byte(i*101 + j*7 + j>>8)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.SampledFrom([]int64{100, 10_000, 1 << 20}).Draw(t, "most")
		some := rapid.Int64Range(1, most/3+1)
		near := rapid.Int64Range(-1, 1) // offset from a limit
		var ps []piece
		at, shard := int64(0), 0
		var wanted, waste int64 // bytes since the last piece that certainly begins a read
		for range rapid.IntRange(1, 12).Draw(t, "pieces") {
			if shard == 0 && rapid.IntRange(0, 9).Draw(t, "next shard") == 0 {
				at, shard, wanted, waste = at/2, 1, 0, 0
			}
			gap, n := rapid.Int64Range(0, 20).Draw(t, "gap"), some.Draw(t, "length")
			switch rapid.IntRange(0, 3).Draw(t, "which bound") {
			case 0:
				gap = policy.GapLimit + near.Draw(t, "near")
				n = max(n, 8*(waste+gap)-wanted)
			case 1:
				gap = (wanted+n)/8 - waste + near.Draw(t, "near")
			case 2:
				n = most - wanted - waste - gap + near.Draw(t, "near")
			}
			gap, n = max(gap, 0), min(max(n, 1), most)
			if at+gap+n > int64(len(shards[shard])) {
				break
			}
			at += gap
			ps = append(ps, piece{ext: chunkindex.Extent{Shard: shard, Offset: at, Length: n}, dst: make([]byte, n)})
			at += n
			if wanted, waste = wanted+n, waste+gap; wanted+waste > most || gap > policy.GapLimit || waste*8 > wanted {
				wanted, waste = n, 0
			}
		}
		spare := make([]byte, rapid.IntRange(0, 1000).Draw(t, "spare"))
		// joined reports whether one read may load the given pieces, by the documented
		// limits.
		joined := func(ps []piece) bool {
			first, last := ps[0].ext, ps[len(ps)-1].ext
			var wanted int64
			for i, p := range ps {
				wanted += p.ext.Length
				if i == 0 {
					continue
				}
				before := ps[i-1].ext
				if gap := p.ext.Offset - before.Offset - before.Length; p.ext.Shard != first.Shard || gap < 0 || gap > policy.GapLimit {
					return false
				}
			}
			all := last.Offset + last.Length - first.Offset
			return len(ps) == 1 || all <= most && (all-wanted)*8 <= wanted
		}
		var used, seen int
		for _, r := range join(ps, most, spare) {
			for n := 1; n <= len(r.pieces); n++ {
				if !joined(r.pieces[:n]) {
					t.Fatalf("one read brings %+v, which the bounds do not allow", extents(r.pieces[:n]))
				}
			}
			end := seen + len(r.pieces)
			if end < len(ps) && joined(ps[seen:end+1]) {
				t.Fatalf("one read could bring %+v, and brings one piece less", extents(ps[seen:end+1]))
			}
			e := r.ext()
			bytesOf := bytes.NewReader(shards[e.Shard][e.Offset : e.Offset+e.Length])
			for _, dst := range r.into() {
				if _, err := bytesOf.Read(dst); err != nil {
					t.Fatalf("a read of %d bytes has memory for more", e.Length)
				}
			}
			if bytesOf.Len() > 0 {
				t.Fatalf("a read of %d bytes has memory for %d fewer", e.Length, bytesOf.Len())
			}
			seen, used = end, used+len(r.gaps)
		}
		if seen != len(ps) || used > len(spare) {
			t.Fatalf("got reads of %d pieces and %d bytes of spare memory, want %d and at most %d", seen, used, len(ps), len(spare))
		}
		for i, p := range ps {
			if want := shards[p.ext.Shard][p.ext.Offset : p.ext.Offset+p.ext.Length]; !bytes.Equal(p.dst, want) {
				t.Fatalf("piece %d has other bytes than its shard", i)
			}
		}
	})
}

func extents(ps []piece) (all []chunkindex.Extent) {
	for _, p := range ps {
		all = append(all, p.ext)
	}
	return all
}
