package port

import (
	"context"
	"math/rand/v2"
	"net"
	"net/http"
	"time"
)

// EndOf returns the end of a connection that begins now and may reach a given age: a random moment
// of the last quarter, so that connections that begin together do not end together.
func EndOf(age time.Duration) time.Time { return time.Now().Add(age - rand.N(age/4+1)) }

// endKey is the key of the end of a request's connection in its context.
type endKey struct{}

// endOld makes a server end each connection that has reached an age, with an answer that announces
// it. No request is lost.
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
