// RUN: tessera-opt %s --split-input-file --verify-diagnostics

// Texts that describe no mesh.

// expected-error @+1 {{mesh '2data=2': '2data' is no axis name (expected, for example, data=2,model=4 or 8)}}
module attributes {dist.mesh = #dist.mesh<"2data=2">} {}

// -----

// expected-error @+1 {{mesh 'data=': axis 'data' has size ''; a whole number from 1 on is needed (expected, for example, data=2,model=4 or 8)}}
module attributes {dist.mesh = #dist.mesh<"data=">} {}

// -----

// expected-error @+1 {{mesh 'data=0': axis 'data' has size '0'; a whole number from 1 on is needed (expected, for example, data=2,model=4 or 8)}}
module attributes {dist.mesh = #dist.mesh<"data=0">} {}

// -----

// expected-error @+1 {{mesh 'data=2,data=3': axis 'data' occurs twice (expected, for example, data=2,model=4 or 8)}}
module attributes {dist.mesh = #dist.mesh<"data=2,data=3">} {}

// -----

// expected-error @+1 {{mesh 'a=1048576,b=2': too many ranks or axes (expected, for example, data=2,model=4 or 8)}}
module attributes {dist.mesh = #dist.mesh<"a=1048576,b=2">} {}

// -----

// expected-error @+1 {{too many ranks or axes (expected, for example, data=2,model=4 or 8)}}
module attributes {dist.mesh = #dist.mesh<"a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1,i=1,j=1,k=1,l=1,m=1,n=1,o=1,p=1,q=1">} {}

// -----

// expected-error @+1 {{mesh '2,2': '2' is no axis name (expected, for example, data=2,model=4 or 8)}}
module attributes {dist.mesh = #dist.mesh<"2,2">} {}
