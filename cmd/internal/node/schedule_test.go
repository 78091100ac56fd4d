package node

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestReload_ScheduleKeepsItsPast edits a schedule from a position on: the batches before it, the
// plan digests and the first half of the generation stay. The occurrences follow the schedule.
func TestReload_ScheduleKeepsItsPast(t *testing.T) {
	a, b := dataset(t), dataset(t)
	file := func(schedule string) string {
		return fmt.Sprintf("  a: %s\n  b: %s\nmixtures:\n  both: {mix: 'a:3,b:1,samples=80', schedule: {%s}}\n", a, b, schedule)
	}
	type answers struct {
		batches            []string
		digests            []string
		generation, places string
	}
	ask := func(r *rig) (out answers) {
		for i := range 8 {
			_, generation, body := r.get(fmt.Sprintf("/v1/datasets/both/epochs/0/batches/%d?batch_size=10", i))
			out.batches, out.generation = append(out.batches, body), generation
		}
		_, _, body := r.get("/v1/datasets/both/epochs/0?batch_size=10")
		out.digests = regexp.MustCompile(`"digest":"[0-9a-f]{32}"`).FindAllString(body, -1)
		_, _, out.places = r.get("/v1/datasets/both/occurrences?batch_size=10&epochs=0&key=f007")
		return out
	}
	r := newRig(t, file("20: 0/1, 40-60/10: 3/1"), nil)
	defer r.Close()
	was := ask(r)
	r.write(file("20: 0/1, 50: 1/0"))
	r.reload()
	now := ask(r)
	if !slices.Equal(now.batches[:4], was.batches[:4]) || now.batches[4] == was.batches[4] || now.generation[:32] != was.generation[:32] || now.generation == was.generation {
		t.Errorf("the past of generation %s changed in %s", was.generation, now.generation)
	}
	if len(was.digests) != 5 || len(now.digests) != 3 || !slices.Equal(now.digests[:2], was.digests[:2]) || now.digests[2] == was.digests[2] {
		t.Errorf("got digests %v, then %v", was.digests, now.digests)
	}
	_, _, gone := r.get("/v1/datasets/both/epochs/0/batches/0?batch_size=10&generation=" + now.generation[:32] + strings.Repeat("0", 32))
	if !strings.Contains(gone, "the schedule of mixture both has changed: resume from a state") {
		t.Errorf("a generation of another schedule: got %s", gone)
	}
	if now.places == was.places || !strings.Contains(now.places, `"position"`) {
		t.Errorf("got occurrences %s, then %s", was.places, now.places)
	}
}
