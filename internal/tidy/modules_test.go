package tidy

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// aside are modules that are not part of go.work on purpose.
var aside = []string{"tools"}

var (
	oursRequired = regexp.MustCompile(`(?m)^\s*(?:require )?(github\.com/stint-dev/stint\S*) v`)
	oursReplaced = regexp.MustCompile(`(?m)^replace (github\.com/stint-dev/stint\S*) => (\S+)`)
	goVersion    = regexp.MustCompile(`(?m)^go (\S+)$`)
)

// untied says what keeps a checkout's modules from being built together: `make
// test` covers what go.work names, and without it the replace lines do.
func untied(work string, mods map[string]string) []string {
	var complaints []string
	for dir, text := range mods {
		if !slices.Contains(aside, dir) && !regexp.MustCompile(`(?m)^\s*(use )?\./`+regexp.QuoteMeta(dir)+`$`).MatchString(work) && dir != "." {
			complaints = append(complaints, dir+"/go.mod is not part of go.work: make test would leave it out")
		}
		replaced := map[string]bool{}
		for _, m := range oursReplaced.FindAllStringSubmatch(text, -1) {
			replaced[m[1]] = true
			if _, ok := mods[path.Join(dir, m[2])]; !ok {
				complaints = append(complaints, dir+"/go.mod replaces "+m[1]+" by "+m[2]+", where there is no module")
			}
		}
		for _, m := range oursRequired.FindAllStringSubmatch(text, -1) {
			if m[1] != module+"/"+dir && !replaced[m[1]] {
				complaints = append(complaints, dir+"/go.mod requires "+m[1]+", which is not published, without a replace line")
			}
		}
		if got, want := goVersion.FindString(text), goVersion.FindString(work); got != want {
			complaints = append(complaints, dir+"/go.mod says "+got+", go.work says "+want)
		}
	}
	slices.Sort(complaints)
	return complaints
}

func TestEveryModuleIsTied(t *testing.T) {
	mods := map[string]string{}
	walk(t, func(name string) {
		if path.Base(name) == "go.mod" {
			mods[path.Dir(name)] = read(t, name)
		}
	})
	if len(mods) < 4 {
		t.Fatalf("only these modules: %v", mods)
	}
	for _, complaint := range untied(read(t, "go.work"), mods) {
		t.Error(complaint)
	}

	const work = "go 1.26.0\n\nuse (\n\t.\n\t./a\n)\n"
	for text, want := range map[string]string{
		"module " + module + "/a\ngo 1.26.0\n":                 "",
		"go 1.27.0\n":                                          "says go 1.27.0",
		"go 1.26.0\nrequire " + module + " v0.0.0\n":           "without a replace line",
		"go 1.26.0\nreplace " + module + " => ../elsewhere\n":  "no module",
		"go 1.26.0\nrequire (\n\t" + module + "/b v0.0.0\n)\n": "without a replace line",
	} {
		got := strings.Join(untied(work, map[string]string{".": "go 1.26.0\n", "a": text}), "\n")
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s\ncomplaints %q, want %q", text, got, want)
		}
	}
	if got := untied("go 1.26.0\n", map[string]string{"a": "go 1.26.0\n"}); len(got) != 1 {
		t.Errorf("a module outside go.work: complaints %q", got)
	}
}

// TestDesignNamesEveryPackage: the picture of the layout is the one thing that
// a newcomer reads, and the first to grow old.
func TestDesignNamesEveryPackage(t *testing.T) {
	design := read(t, "docs/design.md")
	dirs := map[string]bool{}
	for _, s := range tree(t) {
		if !strings.HasPrefix(s.pkg(), "cmd/stint/internal/") && s.pkg() != "." {
			dirs[s.pkg()] = true
		}
	}
	for dir := range dirs {
		if !strings.Contains(design, path.Base(dir)+"/") && !strings.Contains(design, dir) {
			t.Errorf("docs/design.md does not show %s", dir)
		}
	}
}
