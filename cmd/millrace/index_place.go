package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/millrace-data/millrace/chunkindex"
)

// definePlace defines what the address of the dataset can say too. pack has none of it: it writes the shards itself.
func (x *indexFlags) definePlace(f *flags) {
	f.text(&x.indexURL, "index-url", "", "put the index at `URL`, and write nothing beside the shards (default beside them)")
	f.flag(&x.followLinks, "follow-links", "follow links that lead out of the directory: whoever can make links there chooses what is read")
}

// place parses the dataset's address and adds what the flags say of its place.
func (x *indexFlags) place(f *flags, arg string) location {
	l := one(f, arg)
	if x.followLinks {
		if err := l.followLinks(); err != nil {
			f.fault("--follow-links: %w", err)
		}
	}
	switch {
	case x.indexURL == "":
	case l.index != nil:
		f.fault("--index-url %s: the dataset's address names %s already", hideSecrets(x.indexURL), l.index)
	default:
		if err := l.putIndex(x.indexURL); err != nil {
			f.fault("--index-url %s: %w", hideSecrets(x.indexURL), err)
		}
	}
	return l
}

// warn tells on stderr what is likely not what the user wants of a dataset that was indexed, and the cure.
func (a *app) warn(l location, r chunkindex.BuildReport) {
	if len(r.Splits) > 0 {
		fmt.Fprintf(a.stderr, "millrace: %s: the names tell of several splits, and this dataset is all of them: %s\n", l, splitsText(l, r.Splits))
	}
	if r.Links > 0 {
		cure := ": --follow-links follows those that lead somewhere"
		if l.links {
			cure = ", or leads back to where it lies"
		}
		fmt.Fprintf(a.stderr, "millrace: %s: passed over %s, such as %s, that lead out of the directory, to a directory or nowhere%s\n",
			l, count(r.Links, "link", "links"), printable(r.Link), cure)
	}
	if r.ClassFolders > 0 && l.bucket == "" && l.index == nil {
		fmt.Fprintf(a.stderr, "millrace: %s: %s of pictures: torchvision's ImageFolder takes .millrace for one more class, and fails; --index-url DIR puts the index elsewhere, then remove %s\n",
			l, count(r.ClassFolders, "folder", "folders"), filepath.Join(l.dir, ".millrace"))
	}
}

// splitsText names splits, and how each is indexed by itself.
func splitsText(l location, all []chunkindex.Split) string {
	var found, cures []string
	for _, s := range all {
		found = append(found, fmt.Sprintf("%s (%s, such as %s)", s.Name, count(s.Shards, "shard", "shards"), printable(s.Example)))
		if s.Folder != "" {
			cures = append(cures, fmt.Sprintf("'millrace index %s/%s'", strings.TrimSuffix(l.String(), "/"), printable(s.Folder)))
		} else {
			cures = append(cures, fmt.Sprintf("--match '%s'", printable(s.Match)))
		}
	}
	text := strings.Join(found, ", ") + "; to have one alone: " + strings.Join(cures, " or ")
	if strings.Contains(text, "--match") {
		text += ", each with an --index-url of its own, since a place has one index"
	}
	return text
}

// printPlace says where the index is, and what other commands call the dataset, where that is not its address alone.
func printPlace(w io.Writer, l location) {
	if address := l.address(); address != l.String() {
		fmt.Fprintf(w, "  its address for other commands is %s\n", address)
	}
}
