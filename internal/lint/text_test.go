package lint

import (
	"net/url"
	"path"
	"regexp"
	"strings"
	"testing"
)

// unwanted are patterns that no text of the repository matches. They are put
// together from pieces so that this file does not match itself.
var unwanted = map[string]*regexp.Regexp{
	"a path of somebody's machine": regexp.MustCompile(`(^|[^\w.])/(wor` + `k|home|root)/|\bshare` + `d/|/tmp/g` + `w\b`),
	"a host of a module registry":  regexp.MustCompile(`proxy\.golan` + `g\.org|sum\.golan` + `g\.org`),
	"unfinished work":              regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b|(?i)\bfor no` + `w,`),
}

func TestTextStandsAlone(t *testing.T) {
	for p, b := range textFiles(t) {
		for n, line := range strings.Split(string(b), "\n") {
			for what, re := range unwanted {
				if m := re.FindString(line); m != "" {
					t.Errorf("%s:%d: %q is %s", p, n+1, m, what)
				}
			}
		}
	}
}

// link matches [text](target) outside of code spans well enough for the
// documents of this repository.
var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

func TestLinksResolve(t *testing.T) {
	files := textFiles(t)
	for p, b := range files {
		if path.Ext(p) != ".md" {
			continue
		}
		for _, m := range link.FindAllStringSubmatch(string(b), -1) {
			u, err := url.Parse(m[1])
			if err != nil || u.Scheme != "" {
				continue
			}
			target := p
			if u.Path != "" {
				target = path.Join(path.Dir(p), u.Path)
			}
			if !exists(files, target) {
				t.Errorf("%s: link to %s: there is no %s", p, m[1], target)
			} else if u.Fragment != "" && !headings(files[target])[u.Fragment] {
				t.Errorf("%s: link to %s: there is no such heading", p, m[1])
			}
		}
	}
}

// exists reports whether p is a file or a folder of the tree.
func exists(files map[string][]byte, p string) bool {
	if _, ok := files[p]; ok {
		return true
	}
	for f := range files {
		if strings.HasPrefix(f, strings.TrimSuffix(p, "/")+"/") {
			return true
		}
	}
	return false
}

// headings returns the anchors of a Markdown text.
func headings(b []byte) map[string]bool {
	anchors := map[string]bool{}
	drop := regexp.MustCompile(`[^\w\- ]`)
	for line := range strings.Lines(string(b)) {
		if !strings.HasPrefix(line, "#") {
			continue
		}
		text := strings.ToLower(strings.TrimSpace(strings.TrimLeft(line, "#")))
		anchors[strings.ReplaceAll(drop.ReplaceAllString(text, ""), " ", "-")] = true
	}
	return anchors
}

// TestFilesThatDocumentsNameExist: a path with a Go file's ending, in a code
// span of a document, is a promise that the file is there.
func TestFilesThatDocumentsNameExist(t *testing.T) {
	span := regexp.MustCompile("`([\\w./-]+/[\\w.-]+\\.go)`")
	files := textFiles(t)
	for p, b := range files {
		if path.Ext(p) != ".md" || p == "CHANGELOG.md" {
			continue
		}
		for _, m := range span.FindAllStringSubmatch(string(b), -1) {
			if !exists(files, path.Clean(m[1])) {
				t.Errorf("%s names %s, which does not exist", p, m[1])
			}
		}
	}
}

func TestDecisionsAreIndexed(t *testing.T) {
	index := document(t, "docs/decisions/README.md")
	numbers := map[string]string{}
	for p := range textFiles(t) {
		if path.Dir(p) != "docs/decisions" || path.Base(p) == "README.md" {
			continue
		}
		name := path.Base(p)
		if ok, _ := path.Match("[0-9][0-9][0-9][0-9]-*.md", name); !ok {
			t.Errorf("%s: a decision is named NNNN-words.md", p)
			continue
		}
		if other := numbers[name[:4]]; other != "" {
			t.Errorf("%s and %s have one number", other, name)
		}
		numbers[name[:4]] = name
		if !strings.Contains(index, "("+name+")") {
			t.Errorf("docs/decisions/README.md does not list %s", name)
		}
	}
}
