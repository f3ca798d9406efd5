// Package browsertest drives a real headless Chromium in tests of the dashboard. Start
// gives a Page; its methods fail the test with what they waited for, and none
// waits longer than three minutes. The browser can reach loopback and nothing else, and a page is
// Clean only if it said nothing on its console and asked no other host.
package browsertest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// limit is how long a page may take for anything: a machine that builds and tests at the
// same time is slow.
const limit = 3 * time.Minute

// Options is what the person before the screen has.
type Options struct {
	Width, Height int  // of the window; 1400 × 900 when zero
	Phone         bool // touch, and a screen of narrow width
	Dark          bool // the system's theme
	StillMotion   bool // the system asks for reduced motion
}

// Page is a page in a browser of its own.
type Page struct {
	t   testing.TB
	ctx context.Context

	mu       sync.Mutex
	problems []string // guarded by mu
	origins  map[string]bool
	dir      string
}

// Start starts a browser. Without one the test is skipped, or failed where GANDER_CHECK is 1.
func Start(t testing.TB, o Options) *Page {
	t.Helper()
	if o.Width == 0 {
		o.Width, o.Height = 1400, 900
	}
	flags := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(find(t)),
		chromedp.WindowSize(o.Width, o.Height),
		chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.Flag("disable-gpu", true),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost, EXCLUDE *.localhost"),
		chromedp.Flag("lang", "en-GB"),
		chromedp.WSURLReadTimeout(limit))
	if os.Geteuid() == 0 {
		flags = append(flags, chromedp.NoSandbox) // Chromium refuses to run as root with its own
	}
	alloc, stop := chromedp.NewExecAllocator(context.Background(), flags...)
	t.Cleanup(stop)
	p := &Page{t: t, origins: map[string]bool{}}
	ctx, end := chromedp.NewContext(alloc, chromedp.WithListener(p.listen))
	t.Cleanup(end)
	p.ctx = ctx
	scheme, motion := "light", "no-preference"
	if o.Dark {
		scheme = "dark"
	}
	if o.StillMotion {
		motion = "reduce"
	}
	size := []chromedp.EmulateViewportOption{}
	if o.Phone {
		size = append(size, chromedp.EmulateMobile, chromedp.EmulateTouch, chromedp.EmulateScale(2))
	}
	// The first run starts the browser, and must not be under a time limit: the limit would be the browser's.
	started := time.AfterFunc(limit, end)
	defer started.Stop()
	err := chromedp.Do(ctx)
	if err == nil {
		_, err = chromedp.Call(ctx, network.Enable, network.EnableParams{})
	}
	if err == nil {
		_, err = chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: motion},
		}})
	}
	if err == nil {
		err = chromedp.Do(ctx, chromedp.EmulateViewport(int64(o.Width), int64(o.Height), size...))
	}
	if err != nil {
		t.Fatalf("starting Chromium: %v", err)
	}
	return p
}

func find(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			return found
		}
	}
	if os.Getenv("GANDER_CHECK") == "1" {
		t.Fatal("no Chromium on PATH: apt-get install chromium")
	}
	t.Skip("no Chromium on PATH; Debian's package is chromium")
	return ""
}

func (p *Page) listen(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		d := e.ExceptionDetails
		said := d.Text
		if d.Exception != nil {
			said += " " + d.Exception.Description
		}
		p.problems = append(p.problems, "exception: "+said)
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			p.problems = append(p.problems, fmt.Sprintf("console: %s", e.Args[0].Value))
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError {
			p.problems = append(p.problems, "log: "+e.Entry.Text+" "+e.Entry.URL)
		}
	case *network.EventRequestWillBeSent:
		if u, err := url.Parse(e.Request.URL); err == nil && u.Host != "" {
			p.origins[u.Scheme+"://"+u.Host] = true
		}
	}
}

// run runs actions, within the limit.
func (p *Page) run(what string, actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, stop := context.WithTimeout(p.ctx, limit)
	defer stop()
	if err := chromedp.Do(ctx, actions...); err != nil {
		p.Shot("failed")
		p.t.Fatalf("%s: %v\nthe page said: %s", what, err, strings.Join(p.Problems(), "\n"))
	}
}

// Open goes to an address.
func (p *Page) Open(address string) {
	p.t.Helper()
	p.run("opening "+address, chromedp.Navigate(address))
}

// Eval evaluates an expression, awaits it when it is a promise, and decodes the value into out, which may be nil.
func (p *Page) Eval(expression string, out any) {
	p.t.Helper()
	p.run("evaluating "+expression, func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		raw, err := chromedp.Evaluate[[]byte](expression, chromedp.EvalAwaitPromise)(ctx, t)
		if err == nil && out != nil {
			err = json.Unmarshal(raw, out)
		}
		return chromedp.Void{}, err
	})
}

// Count is how many elements selector matches.
func (p *Page) Count(selector string) int {
	p.t.Helper()
	var n int
	p.Eval(fmt.Sprintf(`document.querySelectorAll(%s).length`, quote(selector)), &n)
	return n
}

// Wait waits until an expression is true.
func (p *Page) Wait(what, expression string) {
	p.t.Helper()
	deadline := time.Now().Add(limit)
	for {
		var ok bool
		p.Eval("Boolean("+expression+")", &ok)
		if ok {
			return
		}
		if time.Now().After(deadline) {
			p.Shot("failed")
			p.t.Fatalf("waited three minutes for %s (%s)\nthe page said: %s", what, expression, strings.Join(p.Problems(), "\n"))
		}
		time.Sleep(50 * time.Millisecond) // between two looks
	}
}

// WaitText waits until an element that can be seen has a text in it.
func (p *Page) WaitText(selector, text string) {
	p.t.Helper()
	p.Wait(fmt.Sprintf("%q in %s", text, selector),
		fmt.Sprintf(`[...document.querySelectorAll(%s)].some((el) => el.innerText.includes(%s))`, quote(selector), quote(text)))
}

// Click clicks the middle of the first element that selector matches as a mouse does: what lies over it gets the click.
func (p *Page) Click(selector string) {
	p.t.Helper()
	p.click(selector, fmt.Sprintf(`document.querySelector(%s)`, quote(selector)))
}

// ClickText clicks the first button within scope whose text is text.
func (p *Page) ClickText(scope, text string) {
	p.t.Helper()
	p.click(fmt.Sprintf("a button %q in %s", text, scope),
		fmt.Sprintf(`[...document.querySelectorAll(%s + " button")].find((b) => b.checkVisibility() && b.innerText.trim() === %s)`, quote(scope), quote(text)))
}

// click waits until an element can be clicked, nothing hides its middle, and it has come
// to rest, and clicks there. A page that moves between the look and the press is aimed at
// again, as a person does; a press that hits and makes no click of it is the page's fault.
func (p *Page) click(what, find string) {
	p.t.Helper()
	aim := fmt.Sprintf(`(() => {
		const el = %s;
		if (!el?.checkVisibility() || el.disabled) return null;
		el.scrollIntoView({ block: "nearest", inline: "nearest" });
		const box = el.getBoundingClientRect();
		const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
		return el.contains(document.elementFromPoint(x, y)) ? { x, y, el } : null;
	})()`, find)
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); {
		p.Wait("something to click, at rest: "+what, `(() => {
			const [was, is] = [window.browsertest, `+aim+`];
			window.browsertest = is;
			return is && was && is.el === was.el && is.x === was.x && is.y === was.y;
		})()`)
		var at struct{ X, Y float64 }
		p.Eval(`(() => {
			const aim = window.browsertest;
			document.addEventListener("mousedown", (event) => { aim.pressed = aim.el.contains(event.target); }, { capture: true, once: true });
			document.addEventListener("click", (event) => { aim.clicked = aim.el.contains(event.target); }, { capture: true, once: true });
			return { x: aim.x, y: aim.y };
		})()`, &at)
		var pressed, clicked bool
		p.run("pressing on "+what, mouse(chromedp.MousePressed, at.X, at.Y))
		p.Eval("Boolean(window.browsertest.pressed)", &pressed)
		if !pressed { // what lies there now must not get the click
			p.run("letting go", mouse(chromedp.MouseReleased, 0, 0))
			continue
		}
		p.run("letting go of "+what, mouse(chromedp.MouseReleased, at.X, at.Y))
		p.Eval("Boolean(window.browsertest.clicked)", &clicked)
		p.Eval("delete window.browsertest", nil)
		if !clicked {
			p.t.Fatalf("%s was pressed and let go, and the page saw no click on it", what)
		}
		return
	}
	p.t.Fatalf("for three minutes %s was never where it had been a moment before", what)
}

// mouse presses or releases the left button.
func mouse(what input.DispatchMouseEventType, x, y float64) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: what, X: x, Y: y, Button: input.MouseButtonLeft, ClickCount: 1})
		return err
	})
}

// Fill puts a text into a field in place of what is there.
func (p *Page) Fill(selector, text string) {
	p.t.Helper()
	p.Wait("the field "+selector, fmt.Sprintf(`document.querySelector(%s)?.checkVisibility()`, quote(selector)))
	p.Eval(fmt.Sprintf(`(() => { const f = document.querySelector(%s); f.focus(); f.select(); })()`, quote(selector)), nil)
	p.run("filling "+selector, chromedp.KeyEvent(kb.Backspace), chromedp.SendKeys(chromedp.CSS(selector), text))
}

// Press presses keys, one for each character; kb of chromedp names the others.
func (p *Page) Press(keys string) {
	p.t.Helper()
	p.run("pressing "+keys, chromedp.KeyEvent(keys))
}

// Shot saves a picture of the window among the test's artifacts (go test -artifacts keeps them).
func (p *Page) Shot(name string) {
	p.t.Helper()
	ctx, stop := context.WithTimeout(p.ctx, limit)
	defer stop()
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		p.t.Logf("no picture %s: %v", name, err)
		return
	}
	if p.dir == "" {
		p.dir = p.t.ArtifactDir()
	}
	file := filepath.Join(p.dir, name+".png")
	if err := os.WriteFile(file, png, 0o600); err != nil {
		p.t.Errorf("saving a picture: %v", err)
	}
}

// Problems are what the page complained of so far.
func (p *Page) Problems() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.problems...)
}

// Clean fails the test when the page complained of anything, save what contains one of the
// allowed texts, or asked another origin than the given one.
func (p *Page) Clean(origin string, allowed ...string) {
	p.t.Helper()
	for _, problem := range p.Problems() {
		if !containsAny(problem, allowed) {
			p.t.Errorf("the page said: %s", problem)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for asked := range p.origins {
		if strings.Replace(asked, "ws", "http", 1) != origin {
			p.t.Errorf("the page asked %s; it is to ask %s only", asked, origin)
		}
	}
}

func containsAny(text string, parts []string) bool {
	for _, part := range parts {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}

func quote(s string) string {
	b, _ := json.Marshal(s) // a string always can
	return string(b)
}
