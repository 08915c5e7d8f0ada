// Package core holds what every library of Gantry is driven by: error codes,
// tasks, contexts and the progress engine, with the semantics of NVIDIA DOCA.
//
// # A task changes hands twice
//
// The application takes a task from the fixed pool of a context, fills it in
// and submits it. From a successful Submit on the context owns the task; the
// completion callback gives it back. Then the application reads the result,
// submits the task again, or frees it.
//
//	           Alloc            Submit              callback
//	pool ───────────▶ application ─────▶ context ─────────────▶ application
//	 ▲                     │ ▲ error: still yours                  │  │
//	 └──────── Free ───────┘ └─────────────── Submit again ◀───────┘  │
//	 └──────────────────────────── Free ◀─────────────────────────────┘
//
// # Nothing happens by itself
//
// A context is connected to one progress [Engine] for life. Callbacks run only
// inside [Engine.Progress] (state callbacks also inside Start and Stop), on
// the goroutine that called it, one at a time and never nested. A state change
// made from inside a callback is reported as soon as that callback returned.
// One call handles at most one completion.
//
// A program polls Progress; or it arms the engine and waits on its descriptor
// ([Engine.RequestNotification], [Engine.Wait], [Engine.ClearNotification]);
// or it lets [Engine.Run] choose.
//
// # One goroutine
//
// An engine, its contexts and their tasks belong to one goroutine at a time.
// Nothing here locks. What a library does on other goroutines comes back
// through the engine, and [Context.Notify] is the only method that they call.
//
// # Everything is sized before Start
//
// Pools are configured while a context is idle and made by Start. After that
// Alloc, Submit, Progress and Free allocate nothing.
package core
