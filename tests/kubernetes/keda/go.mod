// KEDA's operator and metrics adapter, as the tests of the external scaler run them. The replace block is KEDA's own:
// a module's replacements do not reach those who require it.
module opsconsole/keda

go 1.26.0

tool (
	github.com/kedacore/keda/v2/cmd/adapter
	github.com/kedacore/keda/v2/cmd/operator
)

require github.com/kedacore/keda/v2 v2.21.0

replace github.com/nexus-rpc/nexus-proto-annotations v0.1.0 => github.com/nexus-rpc/nexus-proto-annotations v0.1.1-0.20260629224316-835bd8d49cb4

exclude github.com/go-chi/chi/v5 v5.2.3
