package cli

import (
	"runtime"
	"runtime/debug"
)

// Program is the build information of the binary.
type Program struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified"` // the files differed from those of the commit
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// ReadProgram returns the build information of the running binary. The default version is devel.
func ReadProgram() Program {
	p := Program{Version: "devel", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return p
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		p.Version = v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			p.Commit = s.Value
		case "vcs.modified":
			p.Modified = s.Value == "true"
		}
	}
	return p
}
