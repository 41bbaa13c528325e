// Points by WebGL2. Places are sent once, then only four bytes per point: colour, shape, strength and flags.

const VERTEX = `#version 300 es
layout(location=0) in vec2 before;
layout(location=1) in vec2 place;
layout(location=2) in uvec4 look;      // colour, shape, strength, flags
uniform vec4 camera;                   // scale x, scale y, shift x, shift y
uniform float moved, size, density;
uniform int mode;                      // 0 by class, 1 by the scale, 2 ends of edges
uniform vec3 ground;
uniform sampler2D palette;
flat out vec3 colour;
flat out vec3 edge;
flat out int shape;
flat out float pixels;
flat out float rim;
void main() {
  vec2 p = mix(before, place, moved);
  gl_Position = vec4(p * camera.xy + camera.zw, 0.0, 1.0);
  bool given = (look.w & 1u) != 0u, chosen = (look.w & 2u) != 0u, dim = (look.w & 4u) != 0u;
  float strength = float(look.z) / 255.0;
  vec3 own = texelFetch(palette, ivec2(int(look.x), 0), 0).rgb;
  if (mode == 1 && look.x != 255u) own = texelFetch(palette, ivec2(int(look.z), 1), 0).rgb;
  else own = mix(ground, own, given ? 1.0 : 0.3 + 0.7 * strength);
  if (mode == 2) own = texelFetch(palette, ivec2(255, 0), 0).rgb;
  else if (dim) own = mix(ground, own, 0.12);
  colour = own;
  float light = dot(ground, vec3(0.3, 0.6, 0.1));
  edge = chosen ? (light > 0.5 ? vec3(0.0) : vec3(1.0)) : light > 0.5 ? own * 0.45 : mix(own, vec3(1.0), 0.65);
  rim = given || chosen ? 1.0 : 0.0;
  pixels = given ? max(size * 2.0, 9.0 * density) : chosen ? max(size * 1.3, 5.0 * density) + 2.0 : size;
  shape = int(look.y);
  gl_PointSize = pixels;
}`;

const FRAGMENT = `#version 300 es
precision mediump float;
flat in vec3 colour;
flat in vec3 edge;
flat in int shape;
flat in float pixels;
flat in float rim;
uniform bool shaped;
uniform float veil;                    // how much of what is below a line hides
out vec4 result;
float inside(vec2 p) {                 // 1 at the rim, less inside
  vec2 q = abs(p);
  if (shape == 1) return max(q.x, q.y) * 1.18;
  if (shape == 2) return max(q.x * 1.8 - p.y, p.y * 1.2);
  if (shape == 3) return (q.x + q.y) * 1.02;
  if (shape == 4) return min(max(q.x, q.y * 2.6), max(q.x * 2.6, q.y)) * 1.05;
  return length(p);
}
void main() {
  if (!shaped) { result = vec4(colour, veil); return; }
  float far = inside(gl_PointCoord * 2.0 - 1.0), soft = 2.0 / pixels;
  float cover = 1.0 - smoothstep(1.0 - soft, 1.0, far);
  if (cover <= 0.01) discard;
  vec3 own = rim > 0.5 ? mix(colour, edge, smoothstep(1.0 - 3.2 * soft, 1.0 - 2.2 * soft, far)) : colour;
  result = vec4(own, cover);
}`;

// The more edges there are, the less each of them hides.
export const veilOf = (count) => Math.min(0.45, 18 / Math.sqrt(count));

export class Points {
  // Whether a graphics card draws: software is slower than plain pixels.
  static possible() {
    const gl = document.createElement("canvas").getContext("webgl2");
    if (!gl) return false;
    const facts = gl.getExtension("WEBGL_debug_renderer_info");
    const name = String(gl.getParameter(facts ? facts.UNMASKED_RENDERER_WEBGL : gl.RENDERER));
    gl.getExtension("WEBGL_lose_context")?.loseContext();
    return !/swiftshader|llvmpipe|softpipe|software|basic render/i.test(name);
  }

  static on(canvas) {
    const gl = canvas.getContext("webgl2", { antialias: false, alpha: false, preserveDrawingBuffer: false, powerPreference: "high-performance" });
    return gl ? new Points(gl, canvas) : null;
  }

  constructor(gl, canvas) {
    Object.assign(this, { gl, canvas, n: 0, special: 0, moved: 1 });
    const program = gl.createProgram();
    for (const [kind, source] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, source);
      gl.compileShader(shader);
      gl.attachShader(program, shader);
    }
    gl.linkProgram(program);
    if (!gl.getProgramParameter(program, gl.LINK_STATUS) && !gl.isContextLost()) throw new Error(gl.getProgramInfoLog(program));
    gl.useProgram(program);
    this.at = Object.fromEntries(["camera", "moved", "size", "density", "mode", "ground", "palette", "shaped", "veil"].map((name) => [name, gl.getUniformLocation(program, name)]));
    [this.before, this.place, this.look, this.indices, this.lines] = [0, 1, 2, 3, 4].map(() => gl.createBuffer());
    this.ends = 0;
    this.palette = gl.createTexture();
    gl.bindTexture(gl.TEXTURE_2D, this.palette);
    for (const filter of [gl.TEXTURE_MIN_FILTER, gl.TEXTURE_MAG_FILTER]) gl.texParameteri(gl.TEXTURE_2D, filter, gl.NEAREST);
    gl.blendFunc(gl.SRC_ALPHA, gl.ONE_MINUS_SRC_ALPHA);
  }

  // 256 x 2 colours: classes, then the scale of confidence
  setPalette(bytes) {
    const { gl } = this;
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, 256, 2, 0, gl.RGBA, gl.UNSIGNED_BYTE, bytes);
  }

  setPlaces(before, place) {
    const { gl } = this;
    this.n = place.length / 2;
    [[this.before, before, 0], [this.place, place, 1]].forEach(([buffer, data, slot]) => {
      gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
      gl.bufferData(gl.ARRAY_BUFFER, data, gl.STATIC_DRAW);
      gl.enableVertexAttribArray(slot);
    });
  }

  // looks: 4 bytes per point; special: points drawn once more, above the others
  setLooks(looks, special) {
    const { gl } = this;
    gl.bindBuffer(gl.ARRAY_BUFFER, this.look);
    gl.bufferData(gl.ARRAY_BUFFER, looks, gl.DYNAMIC_DRAW);
    gl.enableVertexAttribArray(2);
    this.special = special.length;
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, this.indices);
    gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, special, gl.DYNAMIC_DRAW);
  }

  // ends: two points of every edge
  setEdges(ends) {
    const { gl } = this;
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, this.lines);
    gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, ends, gl.DYNAMIC_DRAW);
    this.ends = ends.length;
  }

  // Reads every point, or one of several.
  attributes(every) {
    const { gl } = this;
    gl.bindBuffer(gl.ARRAY_BUFFER, this.before);
    gl.vertexAttribPointer(0, 2, gl.FLOAT, false, 8 * every, 0);
    gl.bindBuffer(gl.ARRAY_BUFFER, this.place);
    gl.vertexAttribPointer(1, 2, gl.FLOAT, false, 8 * every, 0);
    gl.bindBuffer(gl.ARRAY_BUFFER, this.look);
    gl.vertexAttribIPointer(2, 4, gl.UNSIGNED_BYTE, 4 * every, 0);
  }

  draw({ camera, size, density, mode, ground, every }) {
    const { gl, at } = this;
    gl.viewport(0, 0, this.canvas.width, this.canvas.height);
    gl.clearColor(...ground, 1);
    gl.clear(gl.COLOR_BUFFER_BIT);
    if (!this.n) return;
    gl.uniform4fv(at.camera, camera);
    gl.uniform1f(at.moved, this.moved);
    gl.uniform1f(at.size, size);
    gl.uniform1f(at.density, density);
    gl.uniform1i(at.mode, mode);
    gl.uniform3fv(at.ground, ground);
    if (this.ends) {
      gl.enable(gl.BLEND);
      gl.uniform1i(at.shaped, 0);
      gl.uniform1i(at.mode, 2);
      gl.uniform1f(at.veil, veilOf(this.ends / 2));
      this.attributes(1);
      gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, this.lines);
      gl.drawElements(gl.LINES, this.ends, gl.UNSIGNED_INT, 0);
      gl.uniform1i(at.mode, mode);
    }
    gl.uniform1f(at.veil, 1);
    const shaped = size >= 4.5;
    gl.uniform1i(at.shaped, shaped ? 1 : 0);
    shaped ? gl.enable(gl.BLEND) : gl.disable(gl.BLEND);
    this.attributes(every);
    gl.drawArrays(gl.POINTS, 0, Math.floor(this.n / every));
    if (!this.special) return;
    this.attributes(1);
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, this.indices);
    gl.uniform1i(at.shaped, 1);
    gl.enable(gl.BLEND);
    gl.drawElements(gl.POINTS, this.special, gl.UNSIGNED_INT, 0);
  }
}
