package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/internal/budget"
)

// TestBodiesHaveLimits sends reports that are too long, with and without a Content-Length, and
// bodies to routes that accept none.
func TestBodiesHaveLimits(t *testing.T) {
	r := newRig(t, 20, 800, nil)
	long := `{"url":"` + strings.Repeat("x", 16<<20) + `"}`
	middling := `{"url":"` + strings.Repeat("x", 100<<10) + `"}`
	for _, c := range []struct {
		path, body string
		status     int
		code       string
	}{
		{importancePath, long, 413, "content_too_large"},
		{importancePath, middling, 400, "invalid_argument"},
		{importancePath + "/snapshots", middling, 413, "content_too_large"},
		{"/v1/datasets/photos/warm", middling, 413, "content_too_large"},
		{"/v1/datasets/photos/warm", "{}", 400, "invalid_argument"},
	} {
		checkProblem(t, r.post(c.path, c.body), c.status, c.code, false)
		a, err := r.try("POST", c.path, io.MultiReader(strings.NewReader(c.body))) // without Content-Length
		if err != nil {
			t.Fatal(err)
		}
		if c.path == "/v1/datasets/photos/warm" {
			c.status, c.code = 400, "invalid_argument" // regardless of the length
		}
		checkProblem(t, a, c.status, c.code, false)
	}
}

// TestBodiesAreOnTheBooks: a report that does not fit into the memory budget is refused, and the
// memory of other reports is released.
func TestBodiesAreOnTheBooks(t *testing.T) {
	var b *budget.Budget
	r := newRig(t, 20, 800, func(c *gateway.Config) {
		b = budget.New(2<<20, time.Second)
		c.Budget = b
	})
	before := b.InUse()
	p := checkProblem(t, r.post(importancePath, `{"url":"`+strings.Repeat("x", 1<<20)+`"}`), http.StatusRequestEntityTooLarge, "content_too_large", false)
	if want := "larger than 65536 bytes"; !strings.Contains(p.Detail, want) { // 64 KiB need eight times as much memory, a quarter of the budget
		t.Errorf("got %q, want %q", p.Detail, want)
	}
	checkProblem(t, r.post(importancePath, `{"url":"`+strings.Repeat("x", 60<<10)+`"}`), http.StatusBadRequest, "invalid_argument", false)
	if got := b.InUse(); got != before {
		t.Errorf("got %d bytes in use, want %d as before", got, before)
	}
}

// TestBodiesNotSentInTime stops sending in the middle of a report.
func TestBodiesNotSentInTime(t *testing.T) {
	r := newRig(t, 20, 800, fastDrain)
	r.serveOne(t, gateway.ServerConfig{}, func(conn net.Conn) {
		began := time.Now()
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{\"url\"", importancePath)
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		checkProblem(t, answer{res, body}, http.StatusRequestTimeout, "request_timeout", true)
		if took := time.Since(began); took > 11*time.Second || !res.Close {
			t.Errorf("got an answer after %v, kept alive: %v; want one within 11 s and the end of the connection", took, !res.Close)
		}
	})
}
