package port

import (
	"context"
	"math/rand/v2"
	"net"
	"net/http"
	"time"
)

// EndOf returns the time at which a connection that begins now, with the given maximum age, ends.
// It is a random moment of the last quarter, so that connections that begin together do not end
// together.
func EndOf(age time.Duration) time.Time { return time.Now().Add(age - rand.N(age/4+1)) }

// endKey is the context key of the time at which a request's connection ends.
type endKey struct{}

// endOld makes a server end each connection that has reached the age, with a response that
// announces the end. No request is lost.
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
