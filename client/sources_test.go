package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestParseSource_TellsWhatAnAddressMeans checks the meaning of each form of address. The error for
// an invalid address contains the right form.
func TestParseSource_TellsWhatAnAddressMeans(t *testing.T) {
	const dns, srv = "want dns:NAME:PORT", "want srv:_http._tcp.NAME, or srv:_https._tcp.NAME"
	for address, c := range map[string]struct {
		spread bool
		base   string
		means  addressKind
		fault  string
	}{
		"http://gw:80":             {true, "http://gw:80", several, ""},
		"http://gw:8080":           {false, "http://gw:8080", itself, ""},
		"https://gw:80":            {true, "https://gw:80", itself, ""},
		"http://localhost:80":      {true, "http://localhost:80", itself, ""},
		"http://10.0.0.1:80":       {true, "http://10.0.0.1:80", itself, ""},
		"http://[::1]:80":          {true, "http://[::1]:80", itself, ""},
		"dns:gw:80":                {false, "http://gw:80", addresses, ""},
		"dns:gw:81":                {true, "http://gw:81", addresses, ""},
		"srv:_http._tcp.gw.svc":    {false, "http://_http._tcp.gw.svc", records, ""},
		"srv:_https._tcp.gw":       {true, "https://_https._tcp.gw", records, ""},
		"srv:_httpsx._tcp.gw":      {true, "http://_httpsx._tcp.gw", records, ""},
		"dns:gw":                   {false, "", 0, dns},
		"dns::80":                  {false, "", 0, dns},
		"dns:gw:":                  {false, "", 0, dns},
		"dns:gw:80/x":              {false, "", 0, dns},
		"dns:http://gw:80":         {false, "", 0, dns},
		"srv:gw":                   {false, "", 0, srv},
		"srv:_http._udp.gw":        {false, "", 0, srv},
		"srv:_http._tcp.gw:80":     {false, "", 0, srv},
		"srv:_http._tcp.":          {false, "", 0, srv},
		"srv:x_http._tcp.gw":       {false, "", 0, srv},
		"unix:relative/path":       {false, "", 0, "want unix: and the whole path of a socket"},
		"unix:/with\x00zero":       {false, "", 0, "want unix: and the whole path of a socket"},
		"srv:u:canary@_http._tcp.": {false, "", 0, srv},
		"dns:u:canary@gw:80":       {false, "", 0, dns},
	} {
		s, err := parseSource(address, c.spread)
		if c.fault != "" {
			if err == nil || !strings.Contains(err.Error(), c.fault) || strings.Contains(err.Error(), "canary") || s.base != nil {
				t.Errorf("%q: got %+v, %v, want %s", address, s, err, c.fault)
			}
			continue
		}
		if err != nil || s.base.String() != c.base || s.kind != c.means {
			t.Errorf("%q: got %v that means %d, %v, want %s, %d", address, s.base, s.kind, err, c.base, c.means)
			continue
		}
		if s.lookup() != (c.means != itself) || s.must() != (c.means == addresses || c.means == records) || s.socket() {
			t.Errorf("%q: got lookup %t, must %t, socket %t", address, s.lookup(), s.must(), s.socket())
		}
	}
	s, err := parseSource("unix:/run/a socket", true)
	if g := (&gateway{base: s.base}); err != nil || !s.socket() || s.lookup() || g.name() != "unix:/run/a socket" || s.base.Scheme != "http" {
		t.Errorf("socket: got %+v, %v", s, err)
	}
}

// TestFleet_FindsWhatANameMeans checks the gateways for each response of a name server, with their
// addresses and hosts.
func TestFleet_FindsWhatANameMeans(t *testing.T) {
	down := errors.New("no such host")
	for _, c := range []struct {
		address string
		answer  []string
		fails   error
		want    string // addresses and hosts
		fault   string
	}{
		{"http://gw:80", []string{"10.0.0.1", "10.0.0.2"}, nil, "http://10.0.0.1:80 gw:80, http://10.0.0.2:80 gw:80", ""},
		{"http://gw", []string{"10.0.0.1", "fd00::2"}, nil, "http://10.0.0.1 gw, http://[fd00::2] gw", ""},
		{"http://gw:80", []string{"10.0.0.1", "fd00::2"}, nil, "http://10.0.0.1:80 gw:80, http://[fd00::2]:80 gw:80", ""},
		{"http://gw:80", []string{"10.0.0.1"}, nil, "http://gw:80 ", ""},
		{"http://gw:80", []string{"10.0.0.1", "fe80::1%eth0", "x"}, nil, "http://gw:80 ", ""},
		{"http://gw:80", []string{"127.0.0.1", "::1"}, nil, "http://gw:80 ", ""},
		{"http://gw:80", []string{"127.0.0.1", "10.0.0.1"}, nil, "http://127.0.0.1:80 gw:80, http://10.0.0.1:80 gw:80", ""},
		{"http://gw:80", nil, nil, "http://gw:80 ", ""},
		{"http://gw:80", nil, down, "", "look up gateways gw: no such host"},
		{"dns:gw:80", []string{"10.0.0.1"}, nil, "http://10.0.0.1:80 gw:80", ""},
		{"dns:gw:80", []string{"127.0.0.1", "::1"}, nil, "http://127.0.0.1:80 gw:80, http://[::1]:80 gw:80", ""},
		{"dns:gw:80", []string{"fe80::1%eth0"}, nil, "", `look up gateways gw: none of the addresses ["fe80::1%eth0"] is usable`},
		{"dns:gw:80", nil, down, "", "look up gateways gw: no such host"},
		{"http://10.0.0.1:80", nil, down, "http://10.0.0.1:80 ", ""},
		{"unix:/s", nil, down, "http://2f73.socket.invalid localhost", ""},
	} {
		s, err := parseSource(c.address, true)
		if err != nil {
			t.Fatal(err)
		}
		f := &fleet{lookup: func(_ context.Context, host string) ([]string, error) {
			if host != "gw" {
				t.Errorf("%s: looked %s up", c.address, host)
			}
			return c.answer, c.fails
		}}
		found, err := f.find(t.Context(), s)
		var got []string
		for _, g := range found {
			got = append(got, g.base.String()+" "+g.host)
		}
		if strings.Join(got, ", ") != c.want || (err == nil) != (c.fault == "") || err != nil && err.Error() != c.fault {
			t.Errorf("%s with %q: got %q, %v, want %q, %s", c.address, c.answer, got, err, c.want, c.fault)
		}
	}
}

// TestWithMissing_KeepsIndexes: withMissing adds targets only if all targets differ just in their
// numbers.
func TestWithMissing_KeepsIndexes(t *testing.T) {
	down := errors.New("no such host")
	for in, want := range map[string]string{
		"gw-0.a gw-1.a":      "gw-0.a gw-1.a",
		"gw-2.a":             "gw-0.a gw-1.a gw-2.a",
		"gw-1.a gw-3.a":      "gw-0.a gw-1.a gw-2.a gw-3.a",
		"gw-1.a gw-3.b":      "gw-1.a gw-3.b",
		"gw-1.a xw-3.a":      "gw-1.a xw-3.a",
		"gw-10.a gw-9.a":     "gw-0.a gw-1.a gw-2.a gw-3.a gw-4.a gw-5.a gw-6.a gw-7.a gw-8.a gw-9.a gw-10.a",
		"gw.a gw-1.a":        "gw.a gw-1.a",
		"gw-1.a gw-01.a":     "gw-01.a gw-1.a",
		"10-0-0-2.a":         "10-0-0-2.a",
		"1.a":                "1.a",
		"g1":                 "g0 g1",
		"gw-1234567890.a":    "gw-1234567890.a",
		"gw-0.a. gw-0.a:81.": "gw-0.a gw-0.a:81",
	} {
		var records []*net.SRV
		for name := range strings.FieldsSeq(in) {
			port := uint16(80)
			if rest, other := strings.CutSuffix(name, ":81."); other {
				name, port = rest, 81
			}
			records = append(records, &net.SRV{Target: name, Port: port})
		}
		s, err := parseSource("srv:_http._tcp.gw", true)
		if err != nil {
			t.Fatal(err)
		}
		f := &fleet{home: HomeByRank, lookupSRV: func(_ context.Context, service, proto, name string) (string, []*net.SRV, error) {
			if service != "" || proto != "" || name != "_http._tcp.gw" {
				t.Errorf("looked %q %q %q up", service, proto, name)
			}
			return "", records, down // an error next to records concerns other records
		}}
		found, err := f.findRecords(t.Context(), s)
		var got []string
		for _, g := range found {
			got = append(got, strings.TrimSuffix(g.base.Host, ":80"))
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: got %q, %v, want %s", in, got, err, want)
		}
		records = nil
		if _, err := f.findRecords(t.Context(), s); !errors.Is(err, down) || err.Error() != "look up gateways srv:_http._tcp.gw: no such host" {
			t.Errorf("no record: got %v", err)
		}
	}
}

// TestToken_IsAtMostSoLong checks the maximum length of a token from every source, with and without
// a newline at its end.
func TestToken_IsAtMostSoLong(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	for _, c := range []struct {
		text string
		fits bool
	}{
		{strings.Repeat("x", maxToken), true}, {strings.Repeat("x", maxToken) + "\r\n", true}, {strings.Repeat("x", maxToken+1), false}, {strings.Repeat("x", maxToken+1) + "\n", false},
		{"\n", false}, {"", false}, {"!~", true}, {"a b", false}, {"\x7f", false}, {"a\nb", false},
	} {
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		fromFile, fileErr := readToken(file)
		text, err := checkToken("Token", c.text)
		if (err == nil) != c.fits || (fileErr == nil) != c.fits || text != fromFile || c.fits && text != strings.TrimRight(c.text, "\r\n") || !c.fits && text != "" {
			t.Errorf("%d bytes: got %d, %v and from a file %d, %v, want it to fit: %t", len(c.text), len(text), err, len(fromFile), fileErr, c.fits)
		}
	}
}

// TestFolder_HasAndFills: a file counts only under the name of its batch and its rank, and only if
// its bytes match the batch's header.
func TestFolder_HasAndFills(t *testing.T) {
	dir := t.TempDir()
	d, opt := folder(dir), Options{Rank: 1, WorldSize: 2}
	for kind, ext := range map[string]string{
		"": ".tar", "application/x-tar": ".tar", "application/x-ndjson": ".jsonl", "application/jsonl": ".jsonl", "text/csv": ".csv", "text/tab-separated-values": ".tsv", "image/png": ".bin",
	} {
		b := &Batch{Number: 7, ContentType: kind, data: []byte("123456789"), CRC: 0xe3069283}
		name := filepath.Join(dir, "batch-000007.rank-1-of-2"+ext)
		if d.has(7, opt) {
			t.Fatalf("%s: there is a batch already", kind)
		}
		if err := d.write(b, opt); err != nil {
			t.Fatal(err)
		}
		is, err := os.Stat(name)
		if err != nil || is.Mode().Perm() != 0o644 {
			t.Fatalf("%s: got %v, %v", kind, is, err)
		}
		if !d.has(7, opt) || d.has(7, Options{}) || d.has(7, Options{WorldSize: 2}) || d.has(8, opt) {
			t.Errorf("%s: the batch is not there, or others are", kind)
		}
		got := &Batch{Number: 7, ContentType: kind, CRC: b.CRC}
		if !d.fill(got, 9, opt) || string(got.data) != "123456789" {
			t.Errorf("%s: got %q", kind, got.data)
		}
		for _, bad := range []struct {
			size int64
			crc  uint32
		}{{8, b.CRC}, {10, b.CRC}, {9, b.CRC + 1}} {
			if got := (&Batch{Number: 7, ContentType: kind, CRC: bad.crc}); d.fill(got, bad.size, opt) || got.data != nil {
				t.Errorf("%s: filled with %q for %+v", kind, got.data, bad)
			}
		}
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
		if d.fill(&Batch{Number: 7, ContentType: kind, CRC: b.CRC}, 9, opt) {
			t.Errorf("%s: filled from no file", kind)
		}
		left, err := os.ReadDir(dir)
		if err != nil || len(left) > 0 {
			t.Errorf("%s: got %v, %v left", kind, left, err)
		}
	}
	for _, c := range []struct {
		mode  os.FileMode
		fault string
	}{{0o700, "write batch-000000.tar: rename "}, {0, "write batch-000000.tar: open "}} {
		at := folder(filepath.Join(dir, fmt.Sprint(c.mode)))
		if c.mode != 0 {
			if err := os.MkdirAll(filepath.Join(string(at), "batch-000000.tar"), c.mode); err != nil {
				t.Fatal(err)
			}
		}
		if err := at.write(&Batch{}, Options{}); err == nil || !strings.HasPrefix(err.Error(), c.fault) {
			t.Errorf("got %v, want %s", err, c.fault)
		}
		if left, _ := filepath.Glob(filepath.Join(string(at), ".batch*")); len(left) > 0 {
			t.Errorf("got %q left behind", left)
		}
	}
}

// TestTransfer_AsksForTheRestOnlyOfWhatItHas: the client requests a truncated body without a strong
// ETag again from the beginning.
func TestTransfer_AsksForTheRestOnlyOfWhatItHas(t *testing.T) {
	for _, c := range []struct {
		etag, sent, want string
		size             int64
	}{
		{`"e"`, "12345", "bytes=5-", 9}, {`"e"`, "", "", 9}, {"", "12345", "", 9}, {`"e"`, "123456789", "bytes=9-", 9},
	} {
		tr := &transfer{etag: c.etag, size: c.size, batch: &Batch{}}
		err := tr.read(strings.NewReader(c.sent))
		if whole := len(c.sent) == int(c.size); whole != (err == nil) || err != nil && (!errors.Is(err, ErrShort) || !strings.Contains(err.Error(), fmt.Sprintf("after %d of %d bytes", len(c.sent), c.size))) {
			t.Errorf("%q of %d bytes: got %v", c.sent, c.size, err)
		}
		header := http.Header{}
		for name, value := range tr.rest() {
			header.Set(name, value)
		}
		if got := header.Get("Range"); got != c.want || header.Get("If-Range") != c.etag && c.want != "" || (tr.batch == nil) != (c.etag == "") {
			t.Errorf("%q under %q: asks for %v, want %q", c.sent, c.etag, header, c.want)
		}
	}
}
