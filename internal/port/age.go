package port

import (
	"context"
	"math/rand/v2"
	"net"
	"net/http"
	"time"
)

// EndOf returns when a connection ends that begins now and may have a given age: at a random moment of the last quarter,
// so that connections which began together do not end together.
func EndOf(age time.Duration) time.Time { return time.Now().Add(age - rand.N(age/4+1)) }

// endKey is where a request's context holds the end of its connection.
type endKey struct{}

// endOld makes a server end each connection that has reached an age, with an answer that says so: no request is lost.
func endOld(s *http.Server, age time.Duration) {
	keep := s.ConnContext
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(keep(ctx, c), endKey{}, EndOf(age))
	}
	answer := s.Handler
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if end := r.Context().Value(endKey{}).(time.Time); time.Now().After(end) {
			w.Header().Set("Connection", "close")
		}
		answer.ServeHTTP(w, r)
	})
}
