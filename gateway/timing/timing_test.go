package timing

import (
	"slices"
	"testing"
	"time"
)

// TestShortStretchesAreJoined: the reported stretches cover the whole time of a request, and long
// ones are reported with their phase.
func TestShortStretchesAreJoined(t *testing.T) {
	const short, long = least - 1, least
	for name, c := range map[string]struct {
		phases []Phase
		took   []time.Duration
		want   []stretch
	}{
		"a fast request": {
			[]Phase{Edge, Decode, Wait, Plan, Locate, Read, Edge, Send},
			[]time.Duration{short, 5, 5, 5, 5, 5, 5, long},
			[]stretch{{Edge, 0, short + 20}, {Read, short + 20, short + 25}, {Send, short + 25, short + 30 + long}},
		},
		"a slow one": {
			[]Phase{Edge, Decode, Edge, Wait, Edge, Plan, Locate, Read, Edge, Send},
			[]time.Duration{long, long, 0, long, 5, long, long, short, 0, long},
			[]stretch{
				{Edge, 0, long},
				{Decode, long, 2 * long},
				{Wait, 2 * long, 3*long + 5},
				{Plan, 3*long + 5, 4*long + 5},
				{Locate, 4*long + 5, 5*long + 5},
				{Read, 5*long + 5, 5*long + 5 + short},
				{Send, 5*long + 5 + short, 6*long + 5 + short},
			},
		},
		"one phase in parts": {[]Phase{Edge, Wait, Edge}, []time.Duration{long, 5, long}, []stretch{{Edge, 0, 2*long + 5}}},
		"between reads":      {[]Phase{Read, Edge, Read}, []time.Duration{5, 5, 5}, []stretch{{Read, 0, 5}, {Edge, 5, 10}, {Read, 10, 15}}},
	} {
		var got []stretch
		var r Record
		r.Begin(time.Time{}, func(p Phase, from, to time.Time) {
			got = append(got, stretch{p, from.Sub(r.start), to.Sub(r.start)})
		})
		var at time.Duration
		for i, p := range c.phases {
			r.join(stretch{p, at, at + c.took[i]})
			at += c.took[i]
		}
		if r.tell(); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
