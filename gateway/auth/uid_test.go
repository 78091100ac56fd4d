package auth

import (
	"errors"
	"strings"
	"testing"
)

const usersFile = `
tokens:
  - {name: trainer, sha256: DIGEST}
grants:
  - {who: ["uid:0"], rights: [admin]}
  - {who: ["uid:1000"], datasets: [photos], rights: [read]}
  - {who: [anonymous], datasets: [open], rights: [read]}
limits:
  - {who: ["uid:1001"], memory: 0.5}
`

// TestUsers: a user in the access file is a principal. Other users are anonymous, and so are users
// that the kernel cannot identify.
func TestUsers(t *testing.T) {
	text, sum := NewToken()
	file := newFile(t, strings.Replace(usersFile, "DIGEST", sum, 1))
	g, err := Open(Config{File: string(file), Now: newClock().Now})
	must(t, err)
	shown := func(uid uint32, ok bool) Principal {
		p, err := g.Authenticate(Credentials{UID: func() (uint32, bool) { return uid, ok }})
		must(t, err)
		return p
	}
	for _, c := range []struct {
		uid          uint32
		ok           bool
		want         string
		photos, rule bool
	}{
		{0, true, "uid:0", false, true},
		{1000, true, "uid:1000", true, false},
		{1001, true, "uid:1001", false, false},
		{1002, true, "anonymous", false, false},
		{0, false, "anonymous", false, false},
		{1000, false, "anonymous", false, false},
	} {
		p := shown(c.uid, c.ok)
		if p.Name != c.want || g.May(p, Read, "photos") != c.photos || g.May(p, Admin, "") != c.rule || !g.May(p, Read, "open") {
			t.Errorf("uid %d, known %v: got %s, photos %v, admin %v, open %v", c.uid, c.ok, p.Name, g.May(p, Read, "photos"), g.May(p, Admin, ""), g.May(p, Read, "open"))
		}
	}
	if got := g.Limits(shown(1001, true)).Memory; got != 0.5 {
		t.Errorf("got a share of %v, want 0.5", got)
	}
	user := func() (uint32, bool) { return 1000, true }
	if p, err := g.Authenticate(Credentials{Authorization: []string{"Bearer " + flip(text, 5)}, UID: user}); !errors.Is(err, ErrInvalid) {
		t.Errorf("got %s, %v for a bad token, want a refusal", p.Name, err)
	}
	if p, err := g.Authenticate(Credentials{Authorization: []string{"Bearer " + text}, UID: user}); err != nil || p.Name != "token:trainer" {
		t.Errorf("got %s, %v, want the token's name", p.Name, err)
	}
	was := shown(1000, true)
	file.put(t, "grants: [{who: [anonymous], datasets: [open], rights: [read]}]\n")
	must(t, g.Reload())
	if now := shown(1000, true); g.May(was, Read, "photos") || !now.Anonymous() {
		t.Errorf("the user is out of the file, and is %s, may read: %v", now.Name, g.May(was, Read, "photos"))
	}
}
