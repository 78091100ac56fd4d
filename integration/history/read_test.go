package history

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// written returns a history as JSON lines.
func (h events) written(t *testing.T) *bytes.Buffer {
	t.Helper()
	var out bytes.Buffer
	for _, e := range h {
		if err := json.NewEncoder(&out).Encode(e); err != nil {
			t.Fatal(err)
		}
	}
	return &out
}

// TestLog_ReadsJSONLines reads a correct history, and one with a forged digest.
func TestLog_ReadsJSONLines(t *testing.T) {
	l, h := New(data), base()
	if err := l.Read(h.written(t)); err != nil || l.Err() != nil || l.Events() != len(h) {
		t.Errorf("got %d events, %v, %v, want %d", l.Events(), err, l.Err(), len(h))
	}
	h.change("a0", at(1), flip(3))
	l = New(data)
	if err := l.Read(h.written(t)); err != nil || l.Err() == nil {
		t.Errorf("forged: got %v, %v, want other bytes", err, l.Err())
	}
	for _, text := range []string{"{", `{"sha256":"12"}`, `{"sha256":"xy"}`} {
		if err := New(nil).Read(strings.NewReader(text)); err == nil {
			t.Errorf("%s: got no error", text)
		}
	}
}
