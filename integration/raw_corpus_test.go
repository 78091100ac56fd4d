package integration_test

import "strings"

// end is the state of a connection after a response.
type end int

const (
	kept   end = iota // the gateway also responds to the next request in the stream
	closed            // the gateway reads no further request from the stream
)

// rawCase is one request that few clients would send.
type rawCase struct {
	name string
	raw  string // {BODY}: a loss report, {SIZE} and {HEX}: its length, {BATCH}: the path of a batch
	want string // statuses, interim ones first; "plain" if net/http itself writes the response
	then end
	rule string // section of RFC 9110 or 9112, or the reason for this response
}

// get returns a GET request for /healthz with the given header lines.
func get(lines ...string) string { return request("GET /healthz HTTP/1.1", lines...) }

// post returns a loss report with the given header lines and body.
func post(body string, lines ...string) string {
	lines = append([]string{"Content-Type: application/json"}, lines...)
	return request("POST /v1/datasets/photos/importance HTTP/1.1", lines...) + body
}

func request(line string, lines ...string) string {
	return line + "\r\n" + strings.Join(append([]string{"Host: localhost"}, lines...), "\r\n") + "\r\n\r\n"
}

// target returns a GET request for a request target.
func target(t string) string { return request("GET " + t + " HTTP/1.1") }

// bare returns a request without any automatic header.
func bare(line string, lines ...string) string {
	return line + "\r\n" + strings.Join(append(lines, "\r\n"), "\r\n")
}

const (
	chunked = "Transfer-Encoding: chunked"
	chunks  = "{HEX}\r\n{BODY}\r\n0\r\n\r\n"
	hidden  = "GET /v1/datasets HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: hidden\r\n\r\n" // a request that must not be answered
)

// framing returns requests for which two readers may disagree about where the request ends.
func framing() []rawCase {
	return []rawCase{
		{"report with a length", post("{BODY}", "Content-Length: {SIZE}"), "200", kept, ""},
		{"report in chunks", post(chunks, chunked), "200", closed, "9112 6.1: net/http hides a length beside the chunks, so none of them keeps its connection"},
		{"length and chunks", post(chunks, "Content-Length: 6", chunked), "200", closed, "9112 6.1: the connection MUST close"},
		{"chunks and length", post(chunks, chunked, "Content-Length: 999"), "200", closed, "9112 6.1"},
		{"length and chunks, the rest a request", post("0\r\n\r\n"+hidden, "Content-Length: 6", chunked), "400", closed, "9112 6.1"},
		{"two lengths", post("{BODY}", "Content-Length: {SIZE}", "Content-Length: 9"), "400 plain", closed, "9112 6.3: unrecoverable"},
		{"one length twice", post("{BODY}", "Content-Length: {SIZE}", "Content-Length: {SIZE}"), "200", kept, "9110 8.6: a repeated length may be one"},
		{"list of lengths", post("{BODY}", "Content-Length: {SIZE}, {SIZE}"), "400 plain", closed, "9110 8.6: or refused"},
		{"list of two lengths", get("Content-Length: 0, 5"), "400 plain", closed, "9112 6.3"},
		{"signed length", post("{BODY}", "Content-Length: +{SIZE}"), "400 plain", closed, "9110 8.6: digits"},
		{"negative length", post("", "Content-Length: -1"), "400 plain", closed, "9110 8.6"},
		{"length in hexadecimal", post("{BODY}", "Content-Length: 0x{HEX}"), "400 plain", closed, "9110 8.6"},
		{"length with an underscore", post("{BODY}", "Content-Length: 1_0"), "400 plain", closed, "9110 8.6"},
		{"length with zeros", post("{BODY}", "Content-Length: 000{SIZE}"), "200", kept, "9110 8.6: 1*DIGIT"},
		{"length with spaces", post("{BODY}", "Content-Length:  {SIZE} \t"), "200", kept, "9112 5: OWS"},
		{"folded length", post("{BODY}", "Content-Length:\r\n {SIZE}"), "200", kept, "9112 5.2: a fold is spaces, or refused"},
		{"empty length", get("Content-Length:"), "400 plain", closed, "9110 8.6"},
		{"length above 2^63", post("{BODY}", "Content-Length: 9223372036854775808"), "400 plain", closed, "9110 8.6: no overflow"},
		{"length of 2^63-1", post("{BODY}", "Content-Length: 9223372036854775807"), "413", closed, "9110 15.5.14"},
		{"length of nothing", get("Content-Length: 0"), "200", kept, ""},

		{"chunks, written large", post(chunks, "Transfer-Encoding: CHUNKED"), "200", closed, "9112 7: case does not matter"},
		{"chunks, name written small", post(chunks, "transfer-encoding: chunked"), "200", closed, "9110 5.1"},
		{"folded chunks", post(chunks, "Transfer-Encoding:\r\n chunked"), "200", closed, "9112 5.2"},
		{"chunks with something before", post(chunks, "Transfer-Encoding: xchunked"), "501 plain", closed, "9112 6.1: unknown coding"},
		{"chunks with something after", post(chunks, "Transfer-Encoding: chunked;q=1"), "501 plain", closed, "9112 6.1"},
		{"chunks in quotes", post(chunks, `Transfer-Encoding: "chunked"`), "501 plain", closed, "9112 6.1"},
		{"chunks behind a control letter", post(chunks, "Transfer-Encoding: \x0bchunked"), "400 plain", closed, "9110 5.5"},
		{"chunks behind a comma", post(chunks, "Transfer-Encoding: chunked,"), "501 plain", closed, "9112 6.1"},
		{"chunks in two lines", post(chunks, chunked, chunked), "501 plain", closed, "9112 7: not twice"},
		{"chunks in one line twice", post(chunks, "Transfer-Encoding: chunked, chunked"), "501 plain", closed, "9112 7"},
		{"chunks and identity", post(chunks, chunked, "Transfer-Encoding: identity"), "501 plain", closed, "9112 6.1"},
		{"chunks of gzip", post(chunks, "Transfer-Encoding: gzip, chunked"), "501 plain", closed, "9112 6.1: SHOULD be 501"},
		{"gzip of chunks", post(chunks, "Transfer-Encoding: chunked, gzip"), "501 plain", closed, "9112 6.3: chunked is not the last"},
		{"identity", post("", "Transfer-Encoding: identity"), "501 plain", closed, "9112 6.1"},
		{"no coding", post("{BODY}", "Transfer-Encoding:", "Content-Length: {SIZE}"), "501 plain", closed, "9112 6.1"},
		{"space before the colon", post(chunks, "Transfer-Encoding : chunked"), "400 plain", closed, "9112 5.1: MUST be refused"},
		{"chunks of HTTP/1.0", "POST /v1/datasets/photos/importance HTTP/1.0\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks, "400", closed, "9112 6.1: faulty framing"},
		{
			"chunks of HTTP/1.0 that would stay", "GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n" + hidden,
			"200", closed, "9112 6.1: MUST close, or the chunks are read as a request",
		},
		{
			"chunks and length of HTTP/1.0", "GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden,
			"400", closed, "9112 6.1: net/http goes by the length",
		},

		{"chunk extensions", post("{HEX};a=b;c=\"d\"\r\n{BODY}\r\n0;x\r\n\r\n", chunked), "200", closed, "9112 7.1.1: MUST be ignored"},
		{"endless chunk extension", post("{HEX};"+strings.Repeat("a", 20000)+"\r\n{BODY}\r\n0\r\n\r\n", chunked), "400", closed, "9112 7.1.1: to be bounded"},
		{"very many chunk extensions", post(strings.Repeat("1;"+strings.Repeat("a", 4000)+"\r\n \r\n", 40)+"0\r\n\r\n", chunked), "400", closed, "9112 7.1.1"},
		{"bare line feed in a chunk extension", post("{HEX};\nxx\r\n{BODY}\r\n0\r\n\r\n", chunked), "400", closed, "9112 7.1"},
		{"bare line feeds for chunks", post("{HEX}\n{BODY}\n0\n\n", chunked), "400", closed, "9112 7.1"},
		{"bare line feed after a chunk", post("{HEX}\r\n{BODY}\n0\r\n\r\n", chunked), "400", closed, "9112 7.1"},
		{"no end of a chunk", post("{HEX}\r\n{BODY}XX0\r\n\r\n", chunked), "400", closed, "9112 7.1"},
		{"space after a chunk's size", post("{HEX} \r\n{BODY}\r\n0\r\n\r\n", chunked), "200", closed, "9112 7.1.1: BWS of an extension; what follows is not read"},
		{"space before a chunk's size", post(" {HEX}\r\n{BODY}\r\n0\r\n\r\n", chunked), "400", closed, "9112 7.1"},
		{"0x before a chunk's size", post("0x{HEX}\r\n{BODY}\r\n0\r\n\r\n", chunked), "400", closed, "9112 7.1"},
		{"signed chunk", post("+{HEX}\r\n{BODY}\r\n0\r\n\r\n", chunked), "400", closed, "9112 7.1"},
		{"negative chunk", post("-{HEX}\r\n{BODY}\r\n0\r\n\r\n", chunked), "400", closed, "9112 7.1"},
		{"chunk without a size", post("\r\n{BODY}\r\n0\r\n\r\n", chunked), "400", closed, "9112 7.1"},
		{"chunk above 2^64", post("10000000000000002\r\n{BODY}\r\n0\r\n\r\n", chunked), "400", closed, "9112 7.1: no overflow"},
		{"chunks without an end", post("{HEX}\r\n{BODY}\r\n", chunked) + hidden, "400", closed, "9112 8: incomplete"},
		{"trailers", post("{HEX}\r\n{BODY}\r\n0\r\nX: y\r\n\r\n", chunked, "Trailer: X"), "200", closed, "9110 6.5"},
		{"trailers that frame", post("{HEX}\r\n{BODY}\r\n0\r\nContent-Length: 7\r\nTransfer-Encoding: x\r\n\r\n", chunked), "200", closed, "9110 6.5.1: MUST NOT be merged"},
		{"endless trailers", post("{HEX}\r\n{BODY}\r\n0\r\nX: "+strings.Repeat("y", 100000)+"\r\n\r\n", chunked), "400", closed, ""},

		{"report in gzip", post("{BODY}", "Content-Encoding: gzip", "Content-Length: {SIZE}"), "415", closed, "9110 8.4: a coding that is not taken"},
		{"report as text", request("POST /v1/datasets/photos/importance HTTP/1.1", "Content-Type: text/plain", "Content-Length: {SIZE}") + "{BODY}", "415", closed, "9110 15.5.16"},
		{"report of no type", request("POST /v1/datasets/photos/importance HTTP/1.1", "Content-Length: {SIZE}") + "{BODY}", "415", closed, "9110 8.3"},
		{"report of a type with a charset", request("POST /v1/datasets/photos/importance HTTP/1.1", "Content-Type: Application/JSON; charset=utf-8", "Content-Length: {SIZE}") + "{BODY}", "200", kept, "8259 11: the parameter has no meaning"},
		{"body of a GET", get("Content-Length: 5") + "hello", "400", closed, "9110 9.3.1: may be refused; the connection closes"},
		{"body of a GET that is a request", get("Content-Length: {HIDDEN}") + hidden, "400", closed, "9110 9.3.1"},
		{"body of a GET in chunks", get(chunked) + "5\r\nhello\r\n0\r\n\r\n", "400", closed, "9110 9.3.1"},
		{"no chunks of a GET", get(chunked) + "0\r\n\r\n", "400", closed, "9110 9.3.1"},
		{"body of a HEAD", request("HEAD /healthz HTTP/1.1", "Content-Length: 5") + "hello", "400", closed, "9110 9.3.2"},
		{"body of an OPTIONS", request("OPTIONS /healthz HTTP/1.1", "Content-Length: 5") + "hello", "204", closed, "9110 9.3.7: no meaning"},
		{"body of a batch", request("GET {BATCH} HTTP/1.1", "Content-Length: 5") + "hello", "400", closed, "9110 9.3.1"},
		{"body that never comes", get("Content-Length: 1000000"), "413", closed, ""},
	}
}

// lines returns requests whose first line or headers are wrong or odd.
func lines() []rawCase {
	return []rawCase{
		{"empty line before the request", "\r\n" + get(), "400 plain", closed, "9112 2.2: SHOULD be ignored; net/http does not"},
		{"bare line feeds", "GET /healthz HTTP/1.1\nHost: localhost\n\n", "200", kept, "9112 2.2: MAY be taken for ends of lines"},
		{"bare return for an end", "GET /healthz HTTP/1.1\rHost: localhost\r\n\r\n", "400 plain", closed, "9112 2.2"},
		{"two spaces", "GET  /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", "400 plain", closed, "9112 3"},
		{"tabs for spaces", "GET\t/healthz\tHTTP/1.1\r\nHost: localhost\r\n\r\n", "400 plain", closed, "9112 3"},
		{"space at the end", request("GET /healthz HTTP/1.1 "), "400 plain", closed, "9112 3"},
		{"space at the begin", request(" GET /healthz HTTP/1.1"), "400 plain", closed, "9112 3"},
		{"space in the target", target("/healthz x"), "400 plain", closed, "9112 3.2: or a redirect"},
		{"no version", "GET /healthz\r\n\r\n", "400 plain", closed, "9112 3: HTTP/0.9 is gone"},
		{"start of TLS", "\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", "400 plain", closed, ""},
		{"nothing but zeros", strings.Repeat("\x00", 100) + "\r\n\r\n", "400 plain", closed, ""},
		{"version 1.2", request("GET /healthz HTTP/1.2"), "200", kept, "9110 2.5: as 1.1"},
		{"version 1.10", request("GET /healthz HTTP/1.10"), "400 plain", closed, "9112 2.3: one digit"},
		{"version in small letters", request("GET /healthz http/1.1"), "400 plain", closed, "9112 2.3: case matters"},
		{"version 2.0", request("GET /healthz HTTP/2.0"), "505 plain", closed, "9110 15.6.6"},
		{"version 3.7", request("GET /healthz HTTP/3.7"), "505 plain", closed, "9110 15.6.6"},
		{"preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "400", closed, "9113 3.4: not spoken here"},
		{"upgrade to HTTP/2", get("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA"), "200", kept, "9110 7.8: MAY be ignored"},
		{"upgrade to WebSocket", get("Connection: Upgrade", "Upgrade: websocket"), "200", kept, "9110 7.8"},

		{"method in small letters", request("get /healthz HTTP/1.1"), "501", kept, "9110 9.1: case matters"},
		{"method of 20,000 letters", request(strings.Repeat("A", 20000) + " /healthz HTTP/1.1"), "501", kept, "9110 15.6.2"},
		{"method with an at sign", request("G@T /healthz HTTP/1.1"), "400 plain", closed, "9110 9.1: a token"},
		{"TRACE", request("TRACE /healthz HTTP/1.1", "X-Secret: canary"), "405", kept, "9110 9.3.8: may be refused"},
		{"CONNECT", request("CONNECT localhost:443 HTTP/1.1"), "405", kept, "9110 9.3.6"},
		{"CONNECT of a path", request("CONNECT /healthz HTTP/1.1"), "405", kept, "9110 9.3.6"},
		{"POST where none belongs", request("POST /healthz HTTP/1.1"), "405", kept, "9110 15.5.6"},
		{"OPTIONS", request("OPTIONS /healthz HTTP/1.1"), "204", kept, "9110 9.3.7"},
		{"OPTIONS of the server", request("OPTIONS * HTTP/1.1"), "204", kept, "9110 9.3.7"},
		{"OPTIONS of the server, whole", request("OPTIONS http://localhost HTTP/1.1"), "204", kept, "9112 3.2.4: stands for *"},

		{"no host", bare("GET /healthz HTTP/1.1"), "400 plain", closed, "9112 3.2: MUST be 400"},
		{"no host in HTTP/1.0", bare("GET /healthz HTTP/1.0"), "200", closed, "9112 3.2"},
		{"two hosts", get("Host: elsewhere"), "400 plain", closed, "9112 3.2: MUST be 400"},
		{"one host twice", get("Host: localhost"), "400 plain", closed, "9112 3.2"},
		{"host with a space", bare("GET /healthz HTTP/1.1", "Host: a b"), "400 plain", closed, "9112 3.2: invalid"},
		{"host with a user", bare("GET /healthz HTTP/1.1", "Host: a@localhost"), "400 plain", closed, "9110 7.2"},
		{"host with a path", bare("GET /healthz HTTP/1.1", "Host: localhost/x"), "400 plain", closed, "9110 7.2"},
		{"list of hosts", bare("GET /healthz HTTP/1.1", "Host: localhost, localhost"), "400 plain", closed, "9110 7.2"},
		{"folded host", bare("GET /healthz HTTP/1.1", "Host:", " localhost"), "200", kept, "9112 5.2"},
		{"fold before the first header", bare("GET /healthz HTTP/1.1", " X: y", "Host: localhost"), "400 plain", closed, "9112 2.2: MUST be refused or dropped"},

		{"host of another", bare("GET {BATCH} HTTP/1.1", "Host: elsewhere.example"), "421", kept, "9110 7.4: not served here"},
		{"host of another in the target", request("GET http://elsewhere.example{BATCH} HTTP/1.1"), "421", kept, "9112 3.2.2: the target's host counts"},
		{"host of another beside a target with this one", bare("GET http://localhost{BATCH} HTTP/1.1", "Host: elsewhere.example"), "200", kept, "9112 3.2.2: MUST ignore Host"},
		{"folded header", get("X-Request-Id: a\r\n b"), "200", kept, "9112 5.2: a fold is spaces, or refused"},
		{"space before a colon", get("X-A : b"), "400 plain", closed, "9112 5.1: MUST be 400"},
		{"tab before a colon", get("X-A\t: b"), "400 plain", closed, "9112 5.1"},
		{"no name", get(": b"), "400 plain", closed, "9112 5"},
		{"no colon", get("Nonsense"), "400 plain", closed, "9112 5"},
		{"space in a name", get("X A: b"), "400 plain", closed, "9110 5.1"},
		{"brackets in a name", get("X(A): b"), "400 plain", closed, "9110 5.1"},
		{"zero byte in a name", get("X\x00A: b"), "400 plain", closed, "9110 5.1"},
		{"zero byte in a value", get("X: a\x00b"), "400 plain", closed, "9110 5.5: refused or replaced"},
		{"bare return in a value", get("X-Request-Id: a\rSet-Cookie: b"), "400 plain", closed, "9110 5.5"},
		{"control letter in a value", get("X: a\x01b"), "400 plain", closed, "9110 5.5"},
		{"DEL in a value", get("X: a\x7fb"), "400 plain", closed, "9110 5.5"},
		{"bytes above 127 in a value", get("X: \xff\xfe"), "200", kept, "9110 5.5: opaque"},
		{"31 KiB of headers", get("X: " + strings.Repeat("a", 31<<10)), "200", kept, ""},
		{"37 KiB of headers", get("X: " + strings.Repeat("a", 37<<10)), "431 plain", closed, "6585 5"},
		{"7,000 headers", get(strings.Repeat("X: a\r\n", 6999) + "X: a"), "431 plain", closed, "6585 5"},

		{"close", get("Connection: close"), "200", closed, "9112 9.6: MUST close"},
		{"close in a list", get("Connection: x, Close"), "200", closed, "9110 7.6.1"},
		{"Connection names Host", get("Connection: Host, Content-Length"), "200", kept, "9110 7.6.1: of no concern to the last server"},
		{"HTTP/1.0", request("GET {BATCH} HTTP/1.0"), "200", closed, "9112 9.3"},
		{"HTTP/1.0 that would stay", request("GET {BATCH} HTTP/1.0", "Connection: keep-alive"), "200", closed, "9112 9.3: it may be closed"},
		{"HTTP/1.0 error", request("GET /nosuch HTTP/1.0", "Connection: keep-alive"), "404", closed, "9112 9.3"},

		{"Expect", post("{BODY}", "Expect: 100-continue", "Content-Length: {SIZE}"), "100 200", kept, "9110 10.1.1"},
		{"Expect in other letters", post("{BODY}", "expect: 100-Continue", "Content-Length: {SIZE}"), "100 200", kept, "9110 10.1.1: case does not matter"},
		{"Expect without a body", get("Expect: 100-continue"), "200", kept, "9110 10.1.1: no 100 without content"},
		{"Expect of a body that is too long", post("", "Expect: 100-continue", "Content-Length: 99999999999"), "413", closed, "9110 10.1.1: the final status at once"},
		{"Expect where no body belongs", request("POST /v1/datasets/photos/warm?epoch=0 HTTP/1.1", "Expect: 100-continue", "Content-Length: 2") + "{}", "400", closed, "9110 10.1.1"},
		{"Expect of HTTP/1.0", request("POST /v1/datasets/photos/importance HTTP/1.0", "Content-Type: application/json", "Expect: 100-continue", "Content-Length: {SIZE}") + "{BODY}", "200", closed, "9110 10.1.1: MUST be ignored"},
		{"Expect of something else", get("Expect: the-unexpected"), "417 plain", closed, "9110 10.1.1: MAY be 417"},
	}
}

// targets returns requests for malformed paths.
func targets() []rawCase {
	return []rawCase{
		{"absolute form", target("http://localhost/healthz"), "200", kept, "9112 3.2.2: MUST be accepted"},
		{"absolute form of https", target("https://localhost/healthz"), "200", kept, "a proxy may have ended TLS"},
		{"absolute form without a path", target("http://localhost"), "200", kept, "9110 4.2.3: as /"},
		{"absolute form with a user", target("http://user:secret@localhost/healthz"), "400", kept, "9110 4.2.4: SHOULD be an error"},
		{"absolute form without a host", target("http:///healthz"), "400", kept, "9110 4.2.1: MUST be rejected"},
		{"absolute form of a path", target("http:/healthz"), "400", kept, "9110 4.2.1"},
		{"absolute form of no path", target("http:healthz"), "400", kept, "9110 4.2.1"},
		{"absolute form of ftp", target("ftp://localhost/healthz"), "400", kept, "9112 3.2.2: no HTTP"},
		{"mailto", target("mailto:a@localhost"), "400", kept, "9112 3.2"},
		{"authority form", target("localhost:80"), "400", kept, "9112 3.2.3: of CONNECT alone"},
		{"asterisk form", target("*"), "400", kept, "9112 3.2.4: of OPTIONS alone"},
		{"asterisk form of a POST", request("POST * HTTP/1.1"), "400", kept, "9112 3.2.4"},
		{"no slash", target("healthz"), "400 plain", closed, "9112 3.2"},
		{"query alone", target("?a=b"), "400 plain", closed, "9112 3.2"},
		{"fragment", target("/healthz#x"), "404", kept, "9112 3.2: none belongs in a target; a path without one is not there"},
		{"fragment of a query", target("{BATCH}#x"), "400", kept, "a parameter with a strange value"},

		{"two slashes", target("//healthz"), "404", kept, ""},
		{"two slashes and a host", target("//localhost/healthz"), "404", kept, ""},
		{"dots", target("/v1/../healthz"), "404", kept, "3986 6: the server need not normalise"},
		{"escaped dots", target("/v1/%2e%2e/healthz"), "404", kept, ""},
		{"way out", target("/../../../../etc/passwd"), "404", kept, ""},
		{"escaped way out", target("/v1/datasets/..%2f..%2f..%2fetc%2fpasswd"), "404", kept, ""},
		{"overlong dots", target("/v1/datasets/%c0%ae%c0%ae/epochs/0"), "404", kept, "3629 3: no UTF-8"},
		{"zero byte", target("/healthz\x00"), "400 plain", closed, "9112 3.2"},
		{"escaped zero byte", target("/healthz%00"), "404", kept, ""},
		{"escaped zero byte in a name", target("/v1/datasets/photos%00/epochs/0"), "404", kept, ""},
		{"escaped line break", target("/healthz%0d%0aX-Injected:%20y"), "404", kept, ""},
		{"line break in a key", target("/v1/datasets/photos/sample?key=%0d%0aX-Injected:%20y"), "404", kept, ""},
		{"escaped slash", target("/v1%2Fdatasets"), "404", kept, "3986 2.2: another path"},
		{"escaped slash in a name", target("/v1/datasets/a%2Fb"), "404", kept, ""},
		{"escaped digit", target("/epoch/%30/batch/0"), "400", kept, "numbers are plain decimals"},
		{"broken escape", target("/healthz%zz"), "400 plain", closed, "3986 2.1"},
		{"broken escape in a query", target("{BATCH}&seed=%zz"), "400", kept, ""},
		{"semicolon in a query", target("{BATCH};seed=1"), "400", kept, ""},
		{"zero byte in a query", target("{BATCH}&seed=%00"), "400", kept, ""},
		{"raw UTF-8", target("/v1/datasets/\u00e4"), "404", kept, "9112 3.2: or refused"},
		{"raw bytes", target("/v1/datasets/\xff\xfe"), "404", kept, ""},
		{"backslash", target("/v1\\datasets"), "404", kept, "9112 3.2: or refused"},
		{"target of 16 KiB", target("/healthz?" + strings.Repeat("a", 16<<10-len("/healthz?"))), "200", kept, ""},
		{"target of a byte more", target("/healthz?" + strings.Repeat("a", 16<<10-len("/healthz?")+1)), "414", kept, "9110 15.5.15"},
		{"target of 40 KiB", target("/" + strings.Repeat("a", 40<<10)), "431 plain", closed, "9112 3: SHOULD be 414; net/http counts it with the headers"},
	}
}
