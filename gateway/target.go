package gateway

import "net/http"

// endFraming closes the connection after requests whose end proxies and net/http may see at
// different bytes (RFC 9112, 6.1). These are chunked requests, since net/http hides their
// Content-Length, and HTTP/1.0 requests, since net/http hides their chunks.
func endFraming(x *exchange) {
	if len(x.r.TransferEncoding) > 0 || !x.r.ProtoAtLeast(1, 1) {
		x.w.Header().Set("Connection", "close")
	}
}

// checkTarget rejects invalid request targets: * and host:port with methods that do not allow them,
// and URLs with another scheme, without a host, or with a password.
func checkTarget(r *http.Request) error {
	u := r.URL
	switch {
	case u.Scheme != "" && (u.Scheme != "http" && u.Scheme != "https" || u.Host == ""),
		u.User != nil,
		r.RequestURI == "*" && r.Method != http.MethodOptions:
		return invalid("the request target must be a path, or an http or https URL with a host and without a user")
	}
	return nil
}
