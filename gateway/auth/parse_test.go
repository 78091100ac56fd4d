package auth

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFaultsOfAFile(t *testing.T) {
	secret, digest := NewToken()
	const open = "grants: [{who: [anonymous], datasets: [open], rights: [read]}]\n"
	token := func(fields string) string { return open + "tokens:\n- {" + fields + "}\n" }
	issuer := func(fields string) string {
		return open + "issuers:\n- {name: corp, issuer: https://id.example, audience: millrace}\n- {" + fields + "}\n"
	}
	grant := func(fields string) string {
		return "tokens: [{name: a, sha256: " + digest + "}]\nissuers: [{name: corp, issuer: https://id.example, audience: m}]\ngrants:\n- {" + fields + "}\n"
	}
	limit := func(fields string) string { return open + "limits:\n- {" + fields + "}\n" }
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "1: the file is empty"},
		{"only a comment", "# nothing\n", "1: the file is empty"},
		{"null", "---\n", "2: an access file must be a mapping with tokens, issuers, grants and limits"},
		{"a list", "- a\n", "1: an access file must be a mapping"},
		{"two documents", open + "---\n" + open, "2: a second YAML document"},
		{"a second document that is faulty", open + "---\n\t- a\n", "not YAML: found character"},
		{"a tab", "tokens:\n\t- a\n", "2: not YAML: found character that cannot start any token"},
		{"a star without quotes", "grants:\n  - {who: [anonymous], datasets: [*], rights: [read]}\n", `(write a pattern that begins with * in quotes: "*-train")`},
		{"an alias", "grants:\n  - {who: [anonymous], datasets: [*-train], rights: [read]}\n", `(write a pattern that begins with * in quotes: "*-train")`},
		{"no grants", "tokens: [{name: a, sha256: " + digest + "}]\n", "1: an access file requires grants"},
		{"empty grants", "tokens: [{name: a, sha256: " + digest + "}]\ngrants: []\n", "2: grants is empty"},
		{"grants cut off", "grants:\n", "1: grants must be a list"},
		{"an unknown section", open + "token: []\n", `2: an access file cannot have the key "token": must be tokens, issuers, grants or limits`},
		{"a section twice", open + open, "2: an access file has grants twice"},
		{"merge keys", open + "<<: {}\n", `2: an access file cannot have the key "<<"`},

		{"a token that is text", open + "tokens: [" + secret + "]\n", "2: a token must be a mapping with name, sha256 and expires"},
		{"an unknown key", token("name: a, sha256: " + digest + ", expire: x"), `3: a token cannot have the key "expire": must be name, sha256 or expires`},
		{"no name", token("sha256: " + digest), "3: a token requires name"},
		{"an empty name", token("name: '', sha256: " + digest), "3: name is empty"},
		{"a null name", token("name: , sha256: " + digest), "3: name is empty"},
		{"a name with a colon", token("name: 'a:b', sha256: " + digest), `3: name "a:b": must be a letter or digit`},
		{"a name with a line end", token(`name: "a\nb", sha256: ` + digest), `3: name "a\nb": must be a letter`},
		{"a long name", token("name: " + strings.Repeat("a", 129) + ", sha256: " + digest), `128 characters at most`},
		{"the name anonymous", token("name: anonymous, sha256: " + digest), `3: name "anonymous": this name is reserved for callers without credentials`},
		{"a name that is a token", token("name: " + secret + ", sha256: " + digest), "3: name is the text of a token"},
		{"a name that is a list", token("name: [a], sha256: " + digest), "3: name must be one plain value"},
		{"no digest", token("name: a"), "3: a token requires sha256"},
		{"a digest that is the token", token("name: a, sha256: " + secret), "3: sha256 is the text of a token"},
		{"a short digest", token("name: a, sha256: " + digest[:63]), "3: sha256 must have 64 hexadecimal digits, got 63 characters"},
		{"a digest of other letters", token("name: a, sha256: " + strings.Repeat("g", 64)), "3: sha256 must have 64 hexadecimal digits, got 64"},
		{"a digest twice", token("name: a, sha256: " + digest + "}\n- {name: b, sha256: " + strings.ToUpper(digest)), "4: sha256 is the same as in line 3"},
		{"a date", token("name: a, expires: 2027-01-01, sha256: " + digest), `3: expires "2027-01-01": must be a time with its zone`},
		{"a time without a zone", token("name: a, expires: 2027-01-01T00:00:00, sha256: " + digest), "3: expires"},

		{"an issuer by http", issuer("name: x, issuer: 'http://id.example', audience: m"), "4: issuer must be an https URL"},
		{"an issuer with a password", issuer("name: x, issuer: 'https://u:" + secret + "@id.example', audience: m"), "4: issuer must be an https URL without user"},
		{"an issuer with a query", issuer("name: x, issuer: 'https://id.example?a=b', audience: m"), "4: issuer must be an https URL"},
		{"no audience", issuer("name: x, issuer: 'https://id2.example'"), "4: an issuer requires audience"},
		{"an issuer's name twice", issuer("name: corp, issuer: 'https://id2.example', audience: m"), `4: name "corp" is already used by another issuer`},
		{"an issuer twice", issuer("name: x, issuer: 'https://id.example', audience: m"), "4: issuer is the same as in corp"},
		{"an issuer with a key of ours", issuer("name: x, issuer: 'https://a.example', audience: m, jwks: x"), `4: an issuer cannot have the key "jwks"`},

		{"no who", grant("datasets: [a], rights: [read]"), "4: a grant requires who"},
		{"who is text", grant("who: anonymous, datasets: [a], rights: [read]"), "4: who must be a list"},
		{"who is empty", grant("who: [], datasets: [a], rights: [read]"), "4: who is empty"},
		{"who is null", grant("who: [anonymous, null], datasets: [a], rights: [read]"), "4: a name in who is empty"},
		{"everybody", grant("who: ['*'], datasets: [a], rights: [read]"), `4: who "*" is allowed only in limits`},
		{"a bare name", grant("who: [a], datasets: [a], rights: [read]"), `4: who "a": must be token:NAME`},
		{"another kind", grant("who: ['user:a'], datasets: [a], rights: [read]"), `4: who "user:a": must be token:NAME`},
		{"a user by name", grant("who: ['uid:root'], datasets: [a], rights: [read]"), `4: who "uid:root": must be a user ID`},
		{"a user in octal", grant("who: ['uid:01000'], datasets: [a], rights: [read]"), `4: who "uid:01000": must be a user ID`},
		{"nobody's number", grant("who: ['uid:4294967295'], datasets: [a], rights: [read]"), `4: who "uid:4294967295": must be a user ID`},
		{"a token that is not there", grant("who: ['token:b'], datasets: [a], rights: [read]"), `4: who "token:b": tokens has no token with this name`},
		{"an issuer that is not there", grant("who: ['jwt:crop#a'], datasets: [a], rights: [read]"), `4: who "jwt:crop#a": issuers has no issuer with this name`},
		{"a JWT without a subject", grant("who: ['jwt:corp'], datasets: [a], rights: [read]"), `4: who "jwt:corp": want jwt:ISSUER#NAME`},
		{"a JWT with an empty subject", grant("who: ['jwt:corp#'], datasets: [a], rights: [read]"), "4: who \"jwt:corp#\": a name must have 1 to 256 bytes"},
		{"all of an issuer", grant("who: ['jwt:corp#*'], datasets: [a], rights: [read]"), "a name must be complete, without *"},
		{"a group without groups", grant("who: ['group:corp#a'], datasets: [a], rights: [read]"), `4: who "group:corp#a": the issuer has no groups`},
		{"a certificate without a name", grant("who: ['certificate:'], datasets: [a], rights: [read]"), "4: who \"certificate:\": a name must have"},
		{"a certificate of all", grant("who: ['certificate:*.example'], datasets: [a], rights: [read]"), "without *"},
		{"no rights", grant("who: [anonymous], datasets: [a]"), "4: a grant requires rights"},
		{"no datasets", grant("who: [anonymous], rights: [read, admin]"), "4: a grant with read, report or warm requires datasets"},
		{"datasets of an admin", grant("who: [anonymous], datasets: [a], rights: [admin]"), "4: datasets apply only to read, report and warm"},
		{"an unknown right", grant("who: [anonymous], datasets: [a], rights: [raed]"), `4: right "raed": must be read, report, warm or admin`},
		{"the right none", grant("who: [anonymous], datasets: [a], rights: [none]"), `4: right "none"`},
		{"a dataset that cannot be", grant("who: [anonymous], datasets: ['a/b'], rights: [read]"), `4: dataset "a/b": must be letters`},
		{"a question mark", grant("who: [anonymous], datasets: ['a?'], rights: [read]"), `4: dataset "a?"`},
		{"sources of a pattern", grant("who: [anonymous], datasets: ['a*'], rights: [read], grants_sources: true"), "grants_sources requires whole names"},
		{"sources without read", grant("who: [anonymous], datasets: [a], rights: [warm], grants_sources: true"), "the rights do not include read"},
		{"sources perhaps", grant("who: [anonymous], datasets: [a], rights: [read], grants_sources: yes"), `4: grants_sources "yes": must be true or false`},

		{"a limit of nothing", limit("who: ['*']"), "3: a limit requires memory or requests"},
		{"memory of 0", limit("who: ['*'], memory: 0"), `3: memory "0": must be a share`},
		{"memory above 1", limit("who: ['*'], memory: 1.5"), `3: memory "1.5"`},
		{"memory that is no number", limit("who: ['*'], memory: .nan"), `3: memory ".nan"`},
		{"memory in bytes", limit("who: ['*'], memory: 1GiB"), `3: memory "1GiB"`},
		{"requests without a unit", limit("who: ['*'], requests: 100"), `3: requests "100": must be a number per second, such as 100/s`},
		{"requests a minute", limit("who: ['*'], requests: 100/m"), `3: requests "100/m"`},
		{"negative requests", limit("who: ['*'], requests: -1/s"), `3: requests "-1/s"`},
		{"endless requests", limit("who: ['*'], requests: inf/s"), `3: requests "inf/s"`},
		{"a name in two limits", limit("who: [anonymous], memory: 1}\n- {who: [anonymous], memory: 1"), `4: who "anonymous" already has the limits of line 3`},
		{"a limit after all", limit("who: ['*'], memory: 1}\n- {who: [anonymous], memory: 1"), `4: who "anonymous" already has the limits of line 3`},
		{"all after all", limit("who: ['*', '*'], memory: 1"), `3: who "*" already has the limits of line 3`},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := string(newFile(t, c.text))
			g, err := Open(Config{File: file})
			if g != nil || err == nil {
				t.Fatalf("got a guard, want the fault %s", c.want)
			}
			first, rest, more := strings.Cut(err.Error(), "\n")
			if more {
				t.Errorf("got more faults than one: %s", rest)
			}
			if !strings.HasPrefix(first, file+":") || !strings.Contains(first, c.want) {
				t.Errorf("got %s, want %s:%s", first, file, c.want)
			}
			if strings.Contains(err.Error(), secret) || strings.Contains(strings.ToLower(err.Error()), digest) {
				t.Errorf("got %s, want no secret in it", err)
			}
		})
	}
}

func TestAllFaultsAreToldInTheOrderOfTheirLines(t *testing.T) {
	file := string(newFile(t, `limits:
  - {who: ["token:nobody"], memory: 2}
grants:
  - {who: ["token:a"], datasets: [photos], rights: [raed, read]}
  - who: ["token:a", anonymous]
    datasets: [photos, "a b"]
    rights: [read]
    until: tomorrow
tokens:
  - {name: a, sha256: 00}
  - {name: "b c"}
unknown: 1
`))
	_, err := Open(Config{File: file})
	want := []string{
		`2: who "token:nobody": tokens has no token`, `2: memory "2"`, `4: right "raed"`, `6: dataset "a b"`, `8: a grant cannot have the key "until"`,
		`10: sha256 must have`, `11: name "b c"`, `11: a token requires sha256`, `12: an access file cannot have the key "unknown"`,
	}
	got := strings.Split(fmt.Sprint(err), "\n")
	if len(got) != len(want) {
		t.Fatalf("got %d faults, want %d:\n%v", len(got), len(want), err)
	}
	for i, w := range want {
		if !strings.HasPrefix(got[i], file+":"+w) {
			t.Errorf("fault %d: got %s, want %s", i, got[i], w)
		}
	}
}

func TestFilesThatAreNotRead(t *testing.T) {
	good := "grants: [{who: [anonymous], datasets: [open], rights: [read]}]\n"
	writable := string(newFile(t, good))
	if err := os.Chmod(writable, 0o602); err != nil {
		t.Fatal(err)
	}
	big := string(newFile(t, good+strings.Repeat("#\n", maxFile/2)))
	for name, c := range map[string]struct{ file, want string }{
		"nothing":         {filepath.Join(t.TempDir(), "access.yaml"), "no such file"},
		"a directory":     {t.TempDir(), "not a regular file"},
		"no name":         {"", "the name of the file is missing"},
		"world-writable":  {writable, "every user of this machine can write this file (mode 0602): run chmod o-w"},
		"more than 16 MB": {big, "more than 16777216 bytes"},
	} {
		if g, err := Open(Config{File: c.file}); g != nil || err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.file) {
			t.Errorf("%s: got %v, want %q and the file", name, err, c.want)
		}
	}
}

// TestTheExampleIsGood parses the example in docs/access.md.
func TestTheExampleIsGood(t *testing.T) {
	page, err := os.ReadFile("../../docs/access.md")
	must(t, err)
	_, shown, _ := strings.Cut(string(page), "```yaml\n")
	shown, _, _ = strings.Cut(shown, "```\n")
	example, err := os.ReadFile("testdata/access.yaml")
	must(t, err)
	if shown != string(example) {
		t.Errorf("docs/access.md shows\n%s\nwant testdata/access.yaml", shown)
	}
	g := mustOpen(t, shown)
	for who, may := range map[string]map[Right]string{
		"token:trainer": {Read: "mix", Report: "text-en"}, "jwt:corp#alice": {Warm: "photos"}, "anonymous": {Read: "open"},
		"certificate:ops.example": {Admin: ""}, "group:corp#research": {Report: "photos"},
	} {
		for right, dataset := range may {
			if !g.May(named(who), right, dataset) {
				t.Errorf("%s, %v on %q: got no, want yes", who, right, dataset)
			}
		}
	}
	if got := g.Limits(Anonymous()); got != (Limits{Memory: 0.5, Requests: 100}) {
		t.Errorf("limits: got %+v, want those for every principal", got)
	}
	if !g.GrantsSources(named("token:trainer"), "mix") || g.May(Anonymous(), Read, "photos") {
		t.Error("got other rights than the page describes")
	}
	_, err = parse("access.yaml", []byte("grants:\n  - who: [anonymous]\n    datasets: [a]\n    rights: [raed]\n"))
	if err == nil || !strings.Contains(string(page), "`"+err.Error()+"`") {
		t.Errorf("got the fault %v, want the one that the page shows", err)
	}
}
