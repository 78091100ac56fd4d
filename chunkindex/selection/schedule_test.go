package selection

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestSchedule_IsNamedByItsBytes stores the schedule of docs/spec/index-format.md.
func TestSchedule_IsNamedByItsBytes(t *testing.T) {
	s, _ := newStore(t)
	want := Schedule{{20480, 1, 1}, {40960, 0, 1}}
	sum := sha256.Sum256([]byte(`{"version":1,"schedule":[[20480,1,1],[40960,0,1]]}` + "\n"))
	digest, created, err := s.KeepSchedule(t.Context(), want)
	if err != nil || !created || digest != hex.EncodeToString(sum[:]) {
		t.Fatalf("got %s, %v, %v", digest, created, err)
	}
	if again, created, err := s.KeepSchedule(t.Context(), want); err != nil || created || again != digest {
		t.Errorf("stored again: got %s, %v, %v", again, created, err)
	}
	second, _, err := s.KeepSchedule(t.Context(), want[:1])
	if all, wrong := s.Schedules(t.Context()); err != nil || wrong != nil || !slices.Equal(all, []string{second, digest}) {
		t.Errorf("got %v, %v, %v, want the newer schedule and the older one", all, err, wrong)
	}
	if got, err := s.OpenSchedule(t.Context(), digest); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}

func TestSchedule_Refusals(t *testing.T) {
	s, st := newStore(t)
	for text, want := range map[string]error{
		"":                              ErrNotFound,
		`{"version":1,"schedule":[[1]`:  ErrCorrupt,
		`{"version":1,"schedule":[-1]}`: ErrCorrupt,
		`{"version":2}`:                 ErrVersion,
	} {
		sum := sha256.Sum256([]byte(text))
		digest := hex.EncodeToString(sum[:])
		if text != "" {
			st.Set("data/set/"+scheduleDir+digest, []byte(text))
		}
		if _, err := s.OpenSchedule(t.Context(), digest); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", text, err, want)
		}
	}
	st.Set("data/set/"+scheduleDir+strings.Repeat("ab", 32), []byte(`{"version":1,"schedule":[[1,1]]}`))
	if _, err := s.OpenSchedule(t.Context(), strings.Repeat("ab", 32)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("got %v for other bytes, want ErrCorrupt", err)
	}
}
