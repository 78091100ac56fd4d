package lab

import (
	"bytes"
	"strings"
	"testing"
)

func TestFiguresAreDrawnAlike(t *testing.T) {
	figures := []*Figure{
		{Name: "lines", Title: "reads", X: "lanes", Y: "reads", LogX: true, LogY: true, Lines: []Line{
			{Name: "slot", X: []float64{8, 16, 32}, Y: []float64{519, 527, 543}},
			{Name: "bound", X: []float64{8, 32}, Y: []float64{519, 543}, Dashed: true},
			{Name: "nothing"},
		}},
		{Name: "bars", Title: "hits", Y: "hit ratio", Names: []string{".1", ".35"}, Groups: []Bars{
			{Name: "lru", Y: []float64{.005, .07}}, {Name: "plan", Y: []float64{.1, .35}},
		}},
	}
	for _, f := range figures {
		var once, again bytes.Buffer
		for _, w := range []*bytes.Buffer{&once, &again} {
			if err := f.Draw(w); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(once.Bytes(), again.Bytes()) {
			t.Errorf("%s: two drawings differ", f.Name)
		}
		if got := once.String(); !strings.Contains(got, f.Title) || !strings.Contains(got, "<svg") {
			t.Errorf("%s: got no drawing with its title", f.Name)
		}
	}
}
