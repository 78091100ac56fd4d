package gateway

import "net/http"

// endFraming ends the connection after a request whose end two readers may see in different places (RFC 9112, 6.1): one in
// chunks, since net/http hides a Content-Length beside them, and one of HTTP/1.0, since net/http hides its chunks.
func endFraming(x *exchange) {
	if len(x.r.TransferEncoding) > 0 || !x.r.ProtoAtLeast(1, 1) {
		x.w.Header().Set("Connection", "close")
	}
}

// checkTarget refuses what stands in the place of a path and is none: * and host:port with methods that have no such form,
// and URLs that are not of HTTP, have no host, or hold a password.
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
