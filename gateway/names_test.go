package gateway_test

import (
	"bytes"
	"net/http"
	"testing"
)

// TestArrowColumnsHaveNamesThatReadersTake: column names are valid UTF-8 for any names of tar
// members.
func TestArrowColumnsHaveNamesThatReadersTake(t *testing.T) {
	shard := append(rawMember(t, "a.x\xfe\xfd", []byte("content")), make([]byte, 1024)...)
	r := serveObjects(t, map[string][]byte{"train.tar": shard}, nil)
	a := r.do("GET", "/epoch/0/batch/0?format=arrow")
	if a.StatusCode != http.StatusOK || !bytes.Contains(a.body, []byte("x\uFFFD")) || bytes.Contains(a.body, []byte("x\xfe\xfd")) {
		t.Errorf("got status %d and %q, want a column x\uFFFD", a.StatusCode, a.body)
	}
}
