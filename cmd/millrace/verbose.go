package main

import (
	"context"
	"crypto/tls"
	"net/http/httptrace"
)

// traced makes --verbose print the connections to gateways and stores, and their errors. It prints
// only addresses, never contents.
func (a *app) traced(ctx context.Context) context.Context {
	say := func(what, at string, err error) {
		if err != nil {
			a.Say("millrace: %s %s: %v", what, at, err)
			return
		}
		a.Say("millrace: %s %s: done", what, at)
	}
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		ConnectDone:      func(_, address string, err error) { say("connect to", address, err) },
		TLSHandshakeDone: func(state tls.ConnectionState, err error) { say("TLS with", state.ServerName, err) },
	})
}
