package datasets

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Texts is a list of texts: the number of words in each, and its class.
type Texts struct {
	Words   []uint32
	Class   []uint8
	Classes int
}

// add adds a text, unless it has no words. class is its class's name; names has those so far.
func (t *Texts) add(text, class string, names []string) []string {
	words := len(strings.Fields(text))
	if words == 0 {
		return names
	}
	at := slices.Index(names, class)
	if at < 0 {
		at, names = len(names), append(names, class)
	}
	t.Words, t.Class, t.Classes = append(t.Words, uint32(words)), append(t.Class, uint8(at)), len(names)
	return names
}

// Brown returns the 57,340 sentences of the Brown corpus, with its 15 genres as classes. Words are
// separated by spaces, and so are punctuation marks.
func Brown() (*Texts, error) {
	file := regexp.MustCompile(`^c[a-r]\d\d$`) // the second letter is the genre
	var t Texts
	var genres []string
	return &t, brownArchive().each(func(name string, content io.Reader) error {
		if !file.MatchString(name) {
			return nil
		}
		lines := bufio.NewScanner(content)
		for lines.Scan() {
			genres = t.add(lines.Text(), name[1:2], genres)
		}
		return lines.Err()
	})
}

// Mails returns the 6,046 mails of the SpamAssassin corpus with their headers. The classes are its
// five groups of spam and other mail.
func Mails() (*Texts, error) {
	var t Texts
	var groups []string
	return &t, mailsArchive().each(func(name string, content io.Reader) error {
		group := path.Dir(strings.TrimPrefix(name, "data/"))
		if path.Ext(name) != ".json" || path.Dir(name) != "data/"+group {
			return nil
		}
		var mail struct{ Text string }
		var b bytes.Buffer
		if _, err := b.ReadFrom(content); err != nil {
			return err
		}
		if err := json.Unmarshal(b.Bytes(), &mail); err != nil {
			return fmt.Errorf("read a mail: %w", err)
		}
		groups = t.add(mail.Text, group, groups)
		return nil
	})
}
