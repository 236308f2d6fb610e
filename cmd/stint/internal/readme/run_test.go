package readme

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// pool is a program around the README's worker pool: five workers, and as many
// again that come later, try one job. It opens everything as docs/start.md does.
const pool = `
func bill(ctx context.Context, tx *sql.Tx, job string) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO invoices (job) VALUES (?)", job)
	return err
}

func main() {
	if err := pool(context.Background()); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func pool(ctx context.Context) error {
	db, err := openStore(os.Args[1] + "/store.db")
	if err != nil {
		return err
	}
	if _, err := db.Exec("CREATE TABLE jobs (name, billed); CREATE TABLE invoices (job); INSERT INTO jobs VALUES ('may', 0)"); err != nil {
		return err
	}
	for range 2 {
		errs := make([]error, 5)
		var all sync.WaitGroup
		for i := range errs {
			c, f, err := open(ctx, "sqlite://"+os.Args[1]+"/leases.db", db)
			if err != nil {
				return err
			}
			all.Go(func() { errs[i] = work(ctx, c, f, "may") })
		}
		all.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	var invoices, raised int
	var state string
	if err := db.QueryRow("SELECT count(*) FROM invoices").Scan(&invoices); err != nil {
		return err
	}
	if err := db.QueryRow("SELECT fence, state FROM stint_fence WHERE name = 'may'").Scan(&raised, &state); err != nil {
		return err
	}
	fmt.Println("invoices", invoices, "raised", raised, state)
	return nil
}
`

func TestReadmeWorkerPoolBillsAJobOnce(t *testing.T) {
	readme, start := goBlocks(t, "README.md"), goBlocks(t, "docs/start.md")
	program := strings.Join([]string{blockWith(t, readme, "func work("), blockWith(t, readme, "func billOnce("),
		blockWith(t, start, "func openStore("), blockWith(t, start, "func open("), pool}, "\n")
	dir, exe := t.TempDir(), filepath.Join(t.TempDir(), "pool")
	file, overlay := filepath.Join(dir, "main.go"), filepath.Join(dir, "overlay.json")
	write(t, file, []byte(frame("main", program)))
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(here, "pool", "main.go"): file}})
	if err != nil {
		t.Fatal(err)
	}
	write(t, overlay, text)
	args := []string{"build", "-buildvcs=false", "-overlay", overlay, "-o", exe}
	if raceEnabled() {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, "./pool")...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(exe, dir).CombinedOutput()
	if want := "invoices 1 raised 10 DONE\n"; err != nil || string(out) != want {
		t.Errorf("ten workers of one job: %v, %q; want %q", err, out, want)
	}
}

func blockWith(t *testing.T, blocks []string, begin string) string {
	t.Helper()
	for _, b := range blocks {
		if strings.Contains(b, begin) {
			return b
		}
	}
	t.Fatalf("there is no example with %q", begin)
	return ""
}
