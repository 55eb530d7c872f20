//! The objects with the API's field names, in the usual order.

use serde::Serialize;

use crate::Figure;
use crate::yaml::as_map;

type Labels = [(&'static str, String); 1];

#[derive(Serialize)]
pub(super) struct Metadata {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    #[serde(serialize_with = "as_map")]
    pub(super) labels: Labels,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LabelSelector {
    #[serde(serialize_with = "as_map")]
    pub(super) match_labels: Labels,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Deployment {
    pub(super) api_version: &'static str,
    pub(super) kind: &'static str,
    pub(super) metadata: Metadata,
    pub(super) spec: DeploymentSpec,
}

#[derive(Serialize)]
pub(super) struct DeploymentSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) replicas: Option<Figure<u16>>,
    pub(super) selector: LabelSelector,
    pub(super) strategy: Rolling,
    pub(super) template: PodTemplate,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Rolling {
    #[serde(rename = "type")]
    kind: &'static str,
    rolling_update: RollingUpdate,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RollingUpdate {
    max_unavailable: Figure<u16>,
    max_surge: Figure<u16>,
}

impl Rolling {
    pub(super) fn with(max_unavailable: Figure<u16>, max_surge: Figure<u16>) -> Self {
        Self { kind: "RollingUpdate", rolling_update: RollingUpdate { max_unavailable, max_surge } }
    }
}

#[derive(Serialize)]
pub(super) struct PodTemplate {
    pub(super) metadata: Metadata,
    pub(super) spec: PodSpec,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodSpec {
    pub(super) termination_grace_period_seconds: Figure<u64>,
    pub(super) automount_service_account_token: bool,
    pub(super) topology_spread_constraints: [Spread; 2],
    pub(super) security_context: PodSecurity,
    pub(super) containers: [Container; 1],
    pub(super) volumes: [Volume; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Spread {
    pub(super) max_skew: u16,
    pub(super) topology_key: &'static str,
    pub(super) when_unsatisfiable: &'static str,
    pub(super) label_selector: LabelSelector,
    pub(super) match_label_keys: [&'static str; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodSecurity {
    pub(super) run_as_non_root: bool,
    pub(super) run_as_user: Figure<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) run_as_group: Option<u32>,
    pub(super) seccomp_profile: Seccomp,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) sysctls: Vec<Sysctl>,
}

#[derive(Serialize)]
pub(super) struct Seccomp {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
}

#[derive(Serialize)]
pub(super) struct Sysctl {
    pub(super) name: &'static str,
    pub(super) value: Figure<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Volume {
    pub(super) name: &'static str,
    pub(super) empty_dir: EmptyDir,
}

#[derive(Serialize)]
pub(super) struct EmptyDir {}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Container {
    pub(super) name: String,
    pub(super) image: String,
    pub(super) command: Vec<Figure<String>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) env: Vec<EnvVar>,
    pub(super) ports: Vec<Port>,
    pub(super) resources: Resources,
    pub(super) startup_probe: Probe,
    pub(super) readiness_probe: Probe,
    pub(super) liveness_probe: Probe,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lifecycle: Option<Lifecycle>,
    pub(super) security_context: ExecSecurity,
    pub(super) volume_mounts: [Mount; 1],
}

#[derive(Serialize)]
pub(super) struct EnvVar {
    pub(super) name: String,
    pub(super) value: Figure<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Port {
    pub(super) name: &'static str,
    pub(super) container_port: Figure<u16>,
}

#[derive(Serialize)]
pub(super) struct Resources {
    requests: Amounts,
    limits: Amounts,
}

#[derive(Serialize)]
struct Amounts {
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu: Option<Figure<String>>,
    memory: Figure<String>,
}

impl Resources {
    /// No CPU limit unless the configuration has one: throttling delays every request of an event loop.
    pub(super) fn new(cpu: Figure<String>, cpu_max: Option<Figure<String>>, memory: Figure<String>) -> Self {
        let limit = Figure::new(memory.value.clone(), "as the request: memory cannot be taken back");
        Self { requests: Amounts { cpu: Some(cpu), memory }, limits: Amounts { cpu: cpu_max, memory: limit } }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Probe {
    pub(super) http_get: HttpGet,
    pub(super) period_seconds: u32,
    pub(super) timeout_seconds: u32,
    pub(super) failure_threshold: Figure<u32>,
}

#[derive(Serialize)]
pub(super) struct HttpGet {
    pub(super) path: &'static str,
    pub(super) port: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Lifecycle {
    pre_stop: PreStop,
}

#[derive(Serialize)]
struct PreStop {
    sleep: Sleep,
}

#[derive(Serialize)]
struct Sleep {
    seconds: Figure<i64>,
}

impl Lifecycle {
    /// The pod keeps serving for this long after its termination starts.
    pub(super) fn sleep(seconds: Figure<i64>) -> Self {
        Self { pre_stop: PreStop { sleep: Sleep { seconds } } }
    }
}

/// Removes only rights that a Node.js app does not need.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ExecSecurity {
    allow_privilege_escalation: bool,
    read_only_root_filesystem: bool,
    capabilities: Capabilities,
}

#[derive(Serialize)]
struct Capabilities {
    drop: [&'static str; 1],
}

impl Default for ExecSecurity {
    fn default() -> Self {
        Self {
            allow_privilege_escalation: false,
            read_only_root_filesystem: true,
            capabilities: Capabilities { drop: ["ALL"] },
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Mount {
    pub(super) name: &'static str,
    pub(super) mount_path: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Service {
    pub(super) api_version: &'static str,
    pub(super) kind: &'static str,
    pub(super) metadata: Metadata,
    pub(super) spec: ServiceSpec,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ServiceSpec {
    #[serde(serialize_with = "as_map")]
    pub(super) selector: Labels,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) session_affinity: Option<Figure<String>>,
    pub(super) ports: [ServicePort; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ServicePort {
    pub(super) name: &'static str,
    pub(super) port: u16,
    pub(super) target_port: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct HorizontalPodAutoscaler {
    pub(super) api_version: &'static str,
    pub(super) kind: &'static str,
    pub(super) metadata: Metadata,
    pub(super) spec: AutoscalerSpec,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AutoscalerSpec {
    pub(super) scale_target_ref: ObjectReference,
    pub(super) min_replicas: Figure<u16>,
    pub(super) max_replicas: Figure<u16>,
    pub(super) metrics: Vec<Metric>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ObjectReference {
    pub(super) api_version: &'static str,
    pub(super) kind: &'static str,
    pub(super) name: String,
}

/// The autoscaler's metrics; the metric that needs the most pods decides.
#[derive(Serialize)]
#[serde(tag = "type")]
pub(super) enum Metric {
    Resource { resource: ResourceMetric },
    Pods { pods: PodsMetric },
}

#[derive(Serialize)]
pub(super) struct ResourceMetric {
    name: &'static str,
    target: Utilization,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Utilization {
    #[serde(rename = "type")]
    kind: &'static str,
    average_utilization: Figure<u32>,
}

#[derive(Serialize)]
pub(super) struct PodsMetric {
    metric: MetricName,
    target: Average,
}

#[derive(Serialize)]
struct MetricName {
    name: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Average {
    #[serde(rename = "type")]
    kind: &'static str,
    average_value: Figure<String>,
}

impl Metric {
    pub(super) fn cpu(percent: Figure<u32>) -> Self {
        let target = Utilization { kind: "Utilization", average_utilization: percent };
        Self::Resource { resource: ResourceMetric { name: "cpu", target } }
    }

    pub(super) fn pods(name: &str, value: &str) -> Self {
        let value =
            Figure::new(value.to_owned(), "for each pod: --metric; a metrics adapter has to serve it");
        let target = Average { kind: "AverageValue", average_value: value };
        Self::Pods { pods: PodsMetric { metric: MetricName { name: name.to_owned() }, target } }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodDisruptionBudget {
    pub(super) api_version: &'static str,
    pub(super) kind: &'static str,
    pub(super) metadata: Metadata,
    pub(super) spec: BudgetSpec,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BudgetSpec {
    pub(super) max_unavailable: Figure<u16>,
    pub(super) selector: LabelSelector,
    pub(super) unhealthy_pod_eviction_policy: &'static str,
}
