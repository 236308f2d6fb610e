package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// An example that is copied has to be understood by the stint beside it: every
// command line of the files in contrib is tried, with --dry-run in place of the
// job.

const contrib = "../../contrib"

func example(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(contrib, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

var programs = regexp.MustCompile(`/usr/local/bin/(nightly|sync|worker)`)

// understood runs a shell's command line of an example.
func understood(t *testing.T, line string) {
	t.Helper()
	w := newWorld(t)
	settings, err := filepath.Abs(filepath.Join(contrib, "stint.conf"))
	if err != nil {
		t.Fatal(err)
	}
	line = strings.ReplaceAll(line, "/usr/local/bin/stint", "stint")
	if strings.Count(line, "stint run ") != 1 {
		t.Fatalf("no stint run is in: %s", line)
	}
	line = strings.Replace(programs.ReplaceAllString(line, "true"), "stint run ", "stint run --dry-run --config "+settings+" ", 1)
	p := w.command(nil, "sh", "-c", "unset STINT_AUTHORITY; "+line)
	p.expect(0)
	out := strings.Join(strings.Fields(p.out.String()), " ")
	for _, want := range []string{" authority etcd://", "stint.conf, line", " command true /"} {
		if !strings.Contains(out, want) {
			t.Errorf("%s\nsays %q; want %q in it", line, out, want)
		}
	}
}

func TestTheCrontabOfContribIsUnderstood(t *testing.T) {
	n := 0
	for line := range strings.Lines(example(t, "cron/nightly")) {
		f := strings.Fields(line)
		if len(f) < 7 || strings.HasPrefix(line, "#") {
			continue
		}
		n++
		_, command, _ := strings.Cut(line, " "+f[5]+" ") // five times, and the user
		if strings.Contains(strings.ReplaceAll(command, `\%`, ""), "%") {
			t.Errorf("a %% ends the command of a crontab: %s", line)
		}
		understood(t, strings.ReplaceAll(command, `\%`, "%"))
	}
	if n != 2 {
		t.Errorf("%d jobs were found; want 2", n)
	}
}

func TestTheUnitsOfContribAreUnderstood(t *testing.T) {
	for _, unit := range []string{"systemd/nightly.service", "systemd/worker.service"} {
		_, line, ok := strings.Cut(example(t, unit), "\nExecStart=")
		if !ok {
			t.Errorf("%s has no ExecStart", unit)
			continue
		}
		line, _, _ = strings.Cut(line, "\n")
		understood(t, strings.ReplaceAll(line, "%%", "%"))
	}
}

func TestTheCronJobOfContribIsUnderstood(t *testing.T) {
	var job struct {
		Kind string
		Spec struct {
			JobTemplate struct {
				Spec struct {
					Template struct {
						Spec struct {
							Containers []struct {
								Command []string
								Env     []struct{ Name, Value string }
							}
						}
					}
				}
			}
		}
	}
	if err := yaml.Unmarshal([]byte(example(t, "kubernetes/cronjob.yaml")), &job); err != nil {
		t.Fatal(err)
	}
	containers := job.Spec.JobTemplate.Spec.Template.Spec.Containers
	if job.Kind != "CronJob" || len(containers) != 1 {
		t.Fatalf("%+v", job)
	}
	c := containers[0]
	line := strings.Join(c.Command, " ")
	for _, e := range c.Env {
		line = strings.ReplaceAll(line, "$("+e.Name+")", "x"+e.Name)
	}
	if strings.Contains(line, "$(") {
		t.Errorf("a variable is not set: %s", line)
	}
	understood(t, line)
}
