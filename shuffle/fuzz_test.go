package shuffle

import (
	"slices"
	"testing"
)

// FuzzOrder uses any parameters and small chunks. An epoch is a bijection, consistent with its
// inverse and its spans. The orders of slot and of strata agree with a reference implementation.
func FuzzOrder(f *testing.F) {
	f.Add(uint8(0), uint64(1), uint64(0), uint64(0), []byte{})
	f.Add(uint8(1), uint64(2), uint64(42), uint64(1)<<32, []byte{3, 0, 9, 1})
	f.Add(uint8(2), uint64(3), uint64(1)<<63, uint64(7), []byte{200, 1, 1, 1, 0, 40})
	f.Add(uint8(2), uint64(128), uint64(5), uint64(1)<<63, []byte{1, 1, 1, 1, 1, 1})
	f.Add(uint8(3), uint64(0), uint64(9), uint64(3), []byte{255, 255})
	f.Add(uint8(4*3+1), uint64(6), uint64(9), uint64(3), []byte{5, 0, 4, 1, 1, 0, 7})
	f.Fuzz(func(t *testing.T, shuffle uint8, window, seed, epoch uint64, sizes []byte) {
		if len(sizes) > 40 {
			sizes = sizes[:40]
		}
		counts := make([]uint64, len(sizes))
		for i, c := range sizes {
			counts[i] = uint64(c)
		}
		params := Params{Shuffle: []string{None, Window, Slot, Full}[shuffle%4], Window: window, Seed: seed}
		if strata := uint64(shuffle / 4); params.Shuffle == Window && strata > 0 {
			params.Strata, params.Window = strata, strata*max(1, window%5)
		}
		p, err := NewPlan(params, prefix(counts...))
		if err != nil {
			if params.Window > 0 && (params.Shuffle != Slot || params.Window <= MaxLanes) {
				t.Fatalf("NewPlan(%+v): %v", params, err)
			}
			return
		}
		e := p.Epoch(epoch)
		if err := checkBijection(e); err != nil {
			t.Fatal(err)
		}
		if err := checkSpans(e); err != nil {
			t.Fatal(err)
		}
		if params.Strata > 0 {
			if got, want := e.Append(nil, 0, p.Samples()), stratifiedModel(params, epoch, counts); !slices.Equal(got, want) {
				t.Fatalf("got %v, want %v", got, want)
			}
		}
		if params.Shuffle == Slot {
			if got, want := e.Append(nil, 0, p.Samples()), slotModel(params, epoch, counts); !slices.Equal(got, want) {
				t.Fatalf("got %v, want %v", got, want)
			}
		}
	})
}

func permuted[E any](k key, in []E) []E {
	out := make([]E, len(in))
	p := newPerm(k, uint64(len(in)))
	for i := range out {
		out[i] = in[p.at(uint64(i))]
	}
	return out
}

// slotModel builds lanes of samples, rotates them, and takes rows of samples from them.
func slotModel(params Params, epoch uint64, counts []uint64) []uint64 {
	first := prefix(counts...)
	chunks := make([]uint64, len(counts))
	for i := range chunks {
		chunks[i] = uint64(i)
	}
	chunks = permuted(newKey("chunks"), chunks)
	var laid []uint64
	for _, c := range chunks {
		for x := first[c]; x < first[c+1]; x++ {
			laid = append(laid, x)
		}
	}
	s := uint64(len(laid))
	m := min(params.Window, s)
	var lanes [][]uint64
	for j := range m {
		lane := modelLane(params.Seed, epoch, j, laid[j*s/m:(j+1)*s/m], chunkTable(first))
		turn := newKey("turn", params.Seed, epoch, j).draw(0, uint64(len(lane)))
		lanes = append(lanes, slices.Concat(lane[turn:], lane[:turn]))
	}
	var order []uint64
	for k := uint64(0); len(order) < len(laid); k++ {
		var row []uint64
		for _, lane := range lanes {
			if uint64(len(lane)) > k {
				row = append(row, lane[k])
			}
		}
		order = append(order, permuted(newKey("row", params.Seed, epoch, k), row)...)
	}
	return order
}

// modelLane cuts a lane into pieces, reorders them, and shuffles each.
func modelLane(seed, epoch, j uint64, lane []uint64, first chunkTable) []uint64 {
	var pieces [][]uint64
	for len(lane) > 0 {
		c := first.of(lane[0])
		n := min(uint64(len(lane)), first[c+1]-lane[0])
		pieces = append(pieces, lane[:n])
		lane = lane[n:]
	}
	var out []uint64
	for _, piece := range permuted(newKey("lane", seed, epoch, j), pieces) {
		c := first.of(piece[0])
		out = append(out, permuted(newKey("piece", seed, epoch, uint64(c), piece[0]-first[c]), piece)...)
	}
	return out
}
