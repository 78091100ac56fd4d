package location

import (
	"strings"
	"testing"
)

// TestParseAddress_KeepsServiceParameters parses addresses, prints them, and parses the result.
func TestParseAddress_KeepsServiceParameters(t *testing.T) {
	for in, want := range map[string]Location{
		"s3://bucket/p?endpoint=https://minio:9000&region=eu-central-1&profile=team-b&path_style=true&ca_file=/etc/ca.pem&bandwidth=500MB&max_conns=64": {
			Service: Service{"https://minio:9000", "eu-central-1", "team-b", "true", "/etc/ca.pem", "500MB", "64"},
		},
		"s3://bucket/p?path_style=false&bandwidth=1GiB/s":                          {Service: Service{PathStyle: "false", Bandwidth: "1GiB/s"}},
		"s3://bucket/p?endpoint=https%3A%2F%2Fminio%3A9000&ca_file=/a%2Cb%26c+d":   {Service: Service{Endpoint: "https://minio:9000", CAFile: "/a,b&c d"}},
		"s3://bucket/p?profile=a,index=s3://mine/p?profile=b&bandwidth=1MB":        {Service: Service{Profile: "a"}, Index: &Location{Bucket: "mine", Prefix: "p/", Service: Service{Profile: "b", Bandwidth: "1MB"}}},
		"s3://bucket/p?profile=a,index=s3://bucket/p":                              {Service: Service{Profile: "a"}, Index: &Location{Bucket: "bucket", Prefix: "p/"}}, // the same bucket with other credentials
		"s3://bucket/p?profile=a,index=s3://bucket/p?profile=a":                    {Service: Service{Profile: "a"}},
		"s3://bucket/p?profile=a,index=file:///i":                                  {Service: Service{Profile: "a"}, Index: &Location{Dir: "/i"}},
		"s3://bucket/p?profile=Admin%20of%20eu%40home&endpoint=http://[::1]:9000/": {Service: Service{Profile: "Admin of eu@home", Endpoint: "http://[::1]:9000/"}},
	} {
		want.Name, want.Bucket, want.Prefix = "p", "bucket", "p/"
		l, err := Parse(in)
		if err != nil || !same(l, want) {
			t.Errorf("%s: got %+v (%v), want %+v", in, l, err, want)
			continue
		}
		if got := l.Plain(); got != "s3://bucket/p" {
			t.Errorf("%s: got %s without its parameters", in, got)
		}
		printed := l.Address()
		if again, err := Parse(printed); err != nil || !same(again, l) {
			t.Errorf("%s: printed as %s, which is %+v (%v)", in, printed, again, err)
		}
		if two := Split("first=" + printed + ",second=/x"); len(two) != 2 || two[0] != "first="+printed {
			t.Errorf("%s: in a list it is cut as %q", printed, two)
		}
	}
}

func same(a, b Location) bool {
	if (a.Index == nil) != (b.Index == nil) || a.Index != nil && !same(*a.Index, *b.Index) {
		return false
	}
	a.Index, b.Index = nil, nil
	return a == b
}

// TestParseAddress_ErrorsNameParameterWithoutSecrets: each error names its parameter, and never
// repeats a value that may be secret.
func TestParseAddress_ErrorsNameParameterWithoutSecrets(t *testing.T) {
	for in, want := range map[string]string{
		"s3://bk1/p?endpoint=minio:9000":                              "endpoint: must be http://host:port",
		"s3://bk1/p?endpoint=https://u:canary@minio":                  "endpoint: must be http://host:port or https://host:port, without credentials",
		"s3://bk1/p?endpoint=https%3A%2F%2Fu%3Acanary%40minio":        "endpoint: must be http://host:port or https://host:port, without credentials",
		"s3://bk1/p?endpoint=https://minio/bucket":                    "endpoint: must be",
		"s3://bk1/p?endpoint=https://minio?x":                         "endpoint: must be",
		"s3://bk1/p?endpoint=":                                        "endpoint: must have a value",
		"s3://bk1/p?region=eu&region=us":                              "region is given twice",
		"s3://bk1/p?region=eu/west":                                   "region: must be a name such as",
		"s3://bk1/p?profile=[a]":                                      "profile: must be a profile",
		"s3://bk1/p?profile=%20a":                                     "profile: must be a profile",
		"s3://bk1/p?profile=a%0Ab":                                    "profile: must be a profile",
		"s3://bk1/p?profile=" + strings.Repeat("a", maxProfile+1):     "profile: must be a profile",
		"s3://bk1/p?path_style=yes":                                   "path_style: must be true or false",
		"s3://bk1/p?bandwidth=fast":                                   "bandwidth: must be bytes per second",
		"s3://bk1/p?bandwidth=1kB":                                    "at least 64KiB",
		"s3://bk1/p?max_conns=0":                                      "max_conns: must be a whole number from 1 to 65535",
		"s3://bk1/p?max_conns=many":                                   "max_conns: must be a whole number from 1 to 65535",
		"s3://bk1/p?regoin=canary":                                    "parameter regoin: must be one of endpoint, region, profile",
		"s3://bk1/p?aws_access_key_id=canary":                         "parameter aws_access_key_id: credentials do not belong in an address",
		"s3://bk1/p?profile=a&aws_secret_access_key=canary/x+y=":      "parameter aws_secret_access_key: credentials",
		"s3://bk1/p?X-Amz-Algorithm=AWS4&X-Amz-Signature=canary":      "parameter X-Amz-Algorithm: credentials",
		"s3://bk1/p?session_token=canary":                             "credentials do not belong",
		"s3://bk1/p?password=canary":                                  "credentials do not belong",
		"s3://bk1/p?canary":                                           "parameters after ? must be NAME=VALUE",
		"s3://bk1/p?wJalrXUtnFEMI/K7MDENG/canary/EXAMPLEKEY=":         "parameter ***: credentials",
		"s3://bk1/p?canarycanarycanarycanarycanary=":                  "parameter ***: must be one of",
		"s3://bk1/p?region=%zz":                                       "parameter region: invalid URL escape in the value",
		"s3://k:canary@bk1/p?region=eu":                               "credentials do not belong in an address",
		"s3://bk1/p,index=s3://bk2/p?secret=canary":                   "index: parameter secret: credentials",
		"s3://bk1/p?endpoint=http://h,index=s3://bk2/p?secret=canary": "index: parameter secret: credentials",
		"s3://bk1/p?profile=a,index=s3://k:canary@bk2/p":              "index: credentials do not belong",
		"s3://bk1/p#Part":                                             "lower-case letters",
		"file:///dir?endpoint=http://h":                               "endpoint: only addresses of buckets accept it",
		"file:///dir?token=canary":                                    "credentials do not belong",
		"photos=s3://bk1/p?endpoint=https://h&secret_key=canary@home": "parameter secret_key: credentials",
	} {
		l, err := Parse(in)
		switch {
		case err == nil:
			t.Errorf("%s: got %+v, want a fault", in, l)
		case !strings.Contains(err.Error(), want):
			t.Errorf("%s: got %v, want %q", in, err, want)
		case strings.Contains(err.Error(), "canary"):
			t.Errorf("%s: the fault repeats a secret: %v", in, err)
		}
	}
}

// TestLocation_SetParameters sets parameters by name, as a file of datasets does.
func TestLocation_SetParameters(t *testing.T) {
	l, err := ParseAddress("s3://bucket/p?region=eu")
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{"endpoint": "http://h:9", "profile": "a", "path_style": "false", "ca_file": "ca.pem", "bandwidth": "2GB", "max_conns": "8"}
	for _, p := range parameters() {
		name := p.name
		if value, ok := values[name]; ok {
			if err := l.Set(name, value); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := l.Set(name, "1"); err == nil || !strings.Contains(err.Error(), name+" is given twice") {
			t.Errorf("%s again: got %v", name, err)
		}
	}
	if want := "s3://bucket/p?endpoint=http://h:9&region=eu&profile=a&path_style=false&ca_file=ca.pem&bandwidth=2GB&max_conns=8"; l.String() != want {
		t.Errorf("got %s, want %s", l, want)
	}
	dir := Location{Dir: "/x"}
	if err := dir.Set("profile", "a"); err == nil || !strings.Contains(err.Error(), "file:///x is a directory") {
		t.Errorf("of a directory: got %v", err)
	}
}
