package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/apps"
	appsv1 "k8s.io/kubernetes/pkg/apis/apps/v1"
	appsvalidation "k8s.io/kubernetes/pkg/apis/apps/validation"
	"k8s.io/kubernetes/pkg/apis/autoscaling"
	autoscalingv2 "k8s.io/kubernetes/pkg/apis/autoscaling/v2"
	autoscalingvalidation "k8s.io/kubernetes/pkg/apis/autoscaling/validation"
	"k8s.io/kubernetes/pkg/apis/core"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/apis/policy"
	policyv1 "k8s.io/kubernetes/pkg/apis/policy/v1"
	policyvalidation "k8s.io/kubernetes/pkg/apis/policy/validation"
)

// Fault is one reason to refuse an object.
type Fault struct {
	// Object is its kind and name, or its place in the file when it cannot be decoded.
	Object string
	// Field is the path of the field; empty where the decoder names it in the message.
	Field   string
	Message string
}

func (fault Fault) String() string {
	return fmt.Sprintf("%s: %s", fault.Object, fault.Message)
}

var decoder = newDecoder()

// The versions that `forkful export` writes, with their defaults, and the server's own forms of them.
func newDecoder() runtime.Decoder {
	scheme := runtime.NewScheme()
	add := []func(*runtime.Scheme) error{
		apps.AddToScheme, appsv1.AddToScheme,
		autoscaling.AddToScheme, autoscalingv2.AddToScheme,
		core.AddToScheme, corev1.AddToScheme,
		policy.AddToScheme, policyv1.AddToScheme,
	}
	for _, add := range add {
		utilruntime.Must(add(scheme))
	}
	codecs := serializer.NewCodecFactory(scheme, serializer.EnableStrict)
	return codecs.UniversalDecoder(
		apps.SchemeGroupVersion, autoscaling.SchemeGroupVersion, core.SchemeGroupVersion, policy.SchemeGroupVersion,
	)
}

// Check gives the objects of a file, as kind and name, and why the server would refuse them.
func Check(text []byte) (objects []string, faults []Fault) {
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for number := 1; ; number++ {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, faults
		}
		place := fmt.Sprintf("document %d", number)
		if err != nil {
			return objects, append(faults, Fault{Object: place, Message: err.Error()})
		}
		object, kind, err := decoder.Decode(document, nil, nil)
		if err != nil {
			faults = append(faults, Fault{Object: place, Message: err.Error()})
			continue
		}
		name, errs := validate(object)
		described := fmt.Sprintf("%s %s", kind.Kind, name)
		objects = append(objects, described)
		for _, err := range errs {
			faults = append(faults, Fault{Object: described, Field: err.Field, Message: err.Error()})
		}
	}
}

func validate(object runtime.Object) (name string, errs field.ErrorList) {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return "", field.ErrorList{field.InternalError(field.NewPath("metadata"), err)}
	}
	// As the server does from the address of the request.
	if accessor.GetNamespace() == "" {
		accessor.SetNamespace("default")
	}
	name = accessor.GetName()
	switch object := object.(type) {
	case *apps.Deployment:
		options := podutil.GetValidationOptionsFromPodTemplate(&object.Spec.Template, nil)
		return name, appsvalidation.ValidateDeployment(object, options)
	case *core.Service:
		return name, corevalidation.ValidateServiceCreate(object)
	case *autoscaling.HorizontalPodAutoscaler:
		// A target of zero replicas is behind a gate that is closed.
		options := autoscalingvalidation.HorizontalPodAutoscalerSpecValidationOptions{MinReplicasLowerBound: 1}
		return name, autoscalingvalidation.ValidateHorizontalPodAutoscaler(object, options)
	case *policy.PodDisruptionBudget:
		options := policyvalidation.PodDisruptionBudgetValidationOptions{}
		return name, policyvalidation.ValidatePodDisruptionBudget(object, options)
	default:
		path := field.NewPath("kind")
		return name, field.ErrorList{field.NotSupported(path, fmt.Sprintf("%T", object), []string{"a kind that export writes"})}
	}
}
