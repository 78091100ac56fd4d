package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/internal/cli"
	"github.com/millrace-data/millrace/internal/location"
)

// definePlace defines what the address of the dataset can say too. pack has none of it: it writes the shards itself.
func (x *indexFlags) definePlace(f *cli.Flags) {
	f.Text(&x.indexURL, "index-url", "", "put the index at `URL`, and write nothing beside the shards (default beside them)")
	f.Flag(&x.followLinks, "follow-links", "follow links that lead out of the directory: whoever can make links there chooses what is read")
}

// place parses the dataset's address and adds what the flags say of its place.
func (x *indexFlags) place(f *cli.Flags, arg string) location.Location {
	l := one(f, arg)
	if x.followLinks {
		if err := l.FollowLinks(); err != nil {
			f.Fault("--follow-links: %w", err)
		}
	}
	switch {
	case x.indexURL == "":
	case l.Index != nil:
		f.Fault("--index-url %s: the dataset's address names %s already", location.HideSecrets(x.indexURL), l.Index)
	default:
		if err := l.PutIndex(x.indexURL); err != nil {
			f.Fault("--index-url %s: %w", location.HideSecrets(x.indexURL), err)
		}
	}
	return l
}

// warn tells on stderr what is likely not what the user wants of a dataset that was indexed, and the cure.
func (a *app) warn(l location.Location, r chunkindex.BuildReport) {
	if len(r.Splits) > 0 {
		fmt.Fprintf(a.Stderr, "millrace: %s: the names tell of several splits, and this dataset is all of them: %s\n", l, splitsText(l, r.Splits))
	}
	if r.Links > 0 {
		cure := ": --follow-links follows those that lead somewhere"
		if l.Links {
			cure = ", or leads back to where it lies"
		}
		fmt.Fprintf(a.Stderr, "millrace: %s: passed over %s, such as %s, that lead out of the directory, to a directory or nowhere%s\n",
			l, cli.Count(r.Links, "link", "links"), cli.Printable(r.Link), cure)
	}
	if r.ClassFolders > 0 && l.Bucket == "" && l.Index == nil {
		fmt.Fprintf(a.Stderr, "millrace: %s: %s of pictures: torchvision's ImageFolder takes .millrace for one more class, and fails; --index-url DIR puts the index elsewhere, then remove %s\n",
			l, cli.Count(r.ClassFolders, "folder", "folders"), filepath.Join(l.Dir, ".millrace"))
	}
}

// splitsText names splits, and how each is indexed by itself.
func splitsText(l location.Location, all []chunkindex.Split) string {
	var found, cures []string
	for _, s := range all {
		found = append(found, fmt.Sprintf("%s (%s, such as %s)", s.Name, cli.Count(s.Shards, "shard", "shards"), cli.Printable(s.Example)))
		if s.Folder != "" {
			cures = append(cures, fmt.Sprintf("'millrace index %s/%s'", strings.TrimSuffix(l.String(), "/"), cli.Printable(s.Folder)))
		} else {
			cures = append(cures, fmt.Sprintf("--match '%s'", cli.Printable(s.Match)))
		}
	}
	text := strings.Join(found, ", ") + "; to have one alone: " + strings.Join(cures, " or ")
	if strings.Contains(text, "--match") {
		text += ", each with an --index-url of its own, since a place has one index"
	}
	return text
}

// printPlace says where the index is, and what other commands call the dataset, where that is not its address alone.
func printPlace(w io.Writer, l location.Location) {
	if address := l.Address(); address != l.String() {
		fmt.Fprintf(w, "  its address for other commands is %s\n", address)
	}
}
